static inline int coins_count(int coins) {
    return coins * 100;
}
