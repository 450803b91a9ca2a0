"""CPython with faulthandler, by ctypes."""
import ctypes, faulthandler, os, signal, sys

faulthandler.enable()
host = ctypes.CDLL(os.environ["HOST_LIBRARY"])
came = 0


def handle(number, frame):
    global came
    came += 1


signal.signal(signal.SIGUSR1, handle)
host.host_install()
match sys.argv[1]:
    case "recover":
        for _ in range(10_000):
            signal.raise_signal(signal.SIGUSR1)
        print("recovered", came)
    case "stall":
        host.host_stall()
    case "crash":
        host.host_crash()
    case "own":
        ctypes.string_at(0)
host.host_uninstall()
