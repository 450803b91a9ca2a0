#include "coins.h"

int till_pay(int coins) {
    return coins_count(coins) / coins; /* faults for no coins */
}
