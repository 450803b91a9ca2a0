/** A JVM, by JNI: what it recovers from are null pointers that the processor finds. */
public class Host {
    static native void install();
    static native void stall();
    static native void crash();
    static native void uninstall();

    static int length(String text) { return text.length(); }

    public static void main(String[] arguments) {
        System.load(System.getenv("HOST_JNI"));
        install();
        switch (arguments[0]) {
            case "recover" -> {
                int came = 0, sum = 0;
                for (int i = 0; i < 200_000; i++) sum += length("warm");
                for (int i = 0; i < 10_000; i++) {
                    try { sum += length(null); } catch (NullPointerException e) { came++; }
                }
                System.out.println("recovered " + came);
            }
            case "stall" -> stall();
            case "crash" -> crash();
            default -> length(null);
        }
        uninstall();
    }
}
