<?php
// PHP, by FFI.
$host = FFI::cdef("void host_install(void); void host_stall(void); void host_crash(void); void host_uninstall(void);",
    getenv("HOST_LIBRARY"));
pcntl_async_signals(true);
$came = 0;
pcntl_signal(SIGUSR1, function () use (&$came) { $came++; });
$host->host_install();
switch ($argv[1]) {
    case "recover":
        for ($i = 0; $i < 10000; $i++) posix_kill(getmypid(), SIGUSR1);
        echo "recovered $came\n";
        break;
    case "stall": $host->host_stall(); break;
    case "crash": $host->host_crash(); break;
    case "own": FFI::cdef("char *strcpy(char *, const char *);", "libc.so.6")->strcpy(FFI::cast("char *", 16), "a"); break;
}
$host->host_uninstall();
