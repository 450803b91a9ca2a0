#!/usr/bin/env python3
"""Writes the reports of this folder; see README.md."""
import hashlib
import json
import pathlib
import re

here = pathlib.Path(__file__).parent
UUID = "4C4C44E2-5555-3144-A15D-8DB1B87DBB83"
DYLD = "341BBF64-6034-357E-8AA6-E1E4B988E03C"
PATH = "/private/var/containers/Bundle/Application/1/kiosk.app/kiosk"


def plain(uuid):
    return uuid.replace("-", "").lower()


def header(bug):
    return json.dumps({
        "app_name": "kiosk", "timestamp": "2024-05-01 12:00:00.00 +0200", "app_version": "2.1", "slice_uuid": UUID.lower(),
        "build_version": "77", "platform": 2, "bundleID": "com.example.kiosk", "bug_type": bug,
        "os_version": "iPhone OS 17.4 (21E219)", "incident_id": "11111111-2222-3333-4444-555555555555", "name": "kiosk"}) + "\n"


def load(event, limits, bug):
    return header(bug) + f"""Date/Time:        2024-05-01 12:00:00.250 +0200
End time:         2024-05-01 12:01:14.740 +0200
OS Version:       iPhone OS 17.4 (Build 21E219)
Architecture:     arm64e
Report Version:   40
Incident Identifier: 11111111-2222-3333-4444-555555555555

Data Source:      Microstackshots
Shared Cache:     D949F5BB-14F3-3223-9E0F-EB9B0E5D53E8 slid base address 0x19b410000, slide 0x1b410000

Command:          kiosk
Path:             {PATH}
Identifier:       com.example.kiosk
Version:          2.1 (77)
Parent:           launchd [1]
PID:              77

Event:            {event}
Action taken:     none
{limits}
Duration:         74.49s
Duration Sampled: 69.82s
Steps:            12

Hardware model:   iPhone15,2
Active cpus:      6

Heaviest stack for the target process:
  12  ??? (dyld + 99140) [0x1a0018344]
  10  ??? (kiosk + 1372) [0x104c3c55c]
  8   ??? (kiosk + 1364) [0x104c3c554]


Powerstats for:   kiosk [77]
UUID:             {UUID}
Path:             {PATH}
Architecture:     arm64
Footprint:        12.3 MB
Start time:       2024-05-01 12:00:01.000 +0200
End time:         2024-05-01 12:01:10.000 +0200
Num samples:      12 (100%)
Primary state:    9 samples Non-Frontmost App, Non-Suppressed, User mode, Effective Thread QoS User Initiated
User Activity:    0 samples Idle, 12 samples Active
Power Source:     12 samples on Battery, 0 samples on AC
  12  ??? (dyld + 99140) [0x1a0018344]
    10  ??? (kiosk + 1372) [0x104c3c55c]
      8   ??? (kiosk + 1364) [0x104c3c554]
      2   ??? (kiosk + 1368) [0x104c3c558]
    2   ??? (libsystem_kernel.dylib + 16) [0x1d0000010]

  Binary Images:
           0x104c3c000 -                ???  com.example.kiosk 2.1 (77) <{UUID}>  {PATH}
           0x1a0000000 -        0x1a008ffff  dyld (1160.6) <{DYLD}>  /usr/lib/dyld
           0x1d0000000 -                ???  libsystem_kernel.dylib (10063.102.14) <11111111-2222-3333-4444-777777777777>  /usr/lib/system/libsystem_kernel.dylib

Powerstats for:   launchd [1]
UUID:             00000000-0000-0000-0000-000000000001
  3   ??? (launchd + 1) [0x104c3c001]
"""


def put(name, text):
    """Writes a file; its reports have an id of their own, by its name: reports with one id are copies."""
    own = hashlib.sha1(name.encode()).hexdigest()[:12]
    text = re.sub(r"\b(11111111-?2222-?3333-?4444-?)(?!7{12})[0-9a-f]{12}", r"\g<1>" + own, text)
    (here / name).write_text(text)


put("cpu_resource.ips", load("cpu usage", "CPU:              48 seconds cpu time over 74 seconds (65% cpu average), exceeding limit of 50% cpu over 180 seconds\nCPU limit:        90s", "202"))
put("cpu_usage_fatal.ips", load("cpu usage", "CPU:              48 seconds cpu time over 48 seconds (99% cpu average), exceeding limit of 80% cpu over 60 seconds", "206"))
put("diskwrites_resource.ips", load("disk writes", "Writes:           1073.75 MB of file backed memory dirtied over 74 seconds (14.51 MB per second average), exceeding limit of 12.43 KB per second over 86400 seconds\nWrites limit:     1073.74 MB", "145"))

IMAGES = f"""Binary Images:
       0x104c3c000 -        0x104c43fff kiosk arm64  <{plain(UUID)}> {PATH}
       0x1a0000000 -        0x1a008ffff dyld arm64e  <{plain(DYLD)}> /usr/lib/dyld

EOF
"""
HEAD = f"""Incident Identifier: 11111111-2222-3333-4444-555555555555
CrashReporter Key:   0
Hardware Model:      iPhone15,2
Process:             kiosk [77]
Path:                {PATH}
Identifier:          com.example.kiosk
Version:             2.1 (77)
Code Type:           ARM-64 (Native)

Date/Time:           2024-05-01 12:00:00.2500 +0200
OS Version:          iPhone OS 17.4 (21E219)
Report Version:      104

"""
MAIN = """Thread 0 name:   Dispatch queue: com.apple.main-thread
Thread 0:
0   dyld                          	       0x1a0018344 start + 1234

"""
FAULT = """Exception Type:  EXC_BAD_ACCESS (SIGSEGV)
Exception Subtype: KERN_PROTECTION_FAILURE at 0x000000016b1c3ff8
Exception Codes: 0x0000000000000002, 0x000000016b1c3ff8
Triggered by Thread:  1

"""
STATE = """Thread 1 crashed with ARM Thread State (64-bit):
    sp: 0x000000016b1c3000   pc: 0x0000000104c3c554

"""


def stack(number, mark, lines):
    return f"Thread {number}{mark}:\n" + "".join(f"{at:<3} {line}\n" for at, line in enumerate(lines)) + "\n"


K = "kiosk                         	       "
D = "dyld                          	       "
STORY = [K + "0x104c3c554 0x104c3c000 + 1364", K + "0x104c3c55c 0x104c3c000 + 1372", D + "0x1a0018344 start + 1234"]
put("simulated.ips", header("185") + HEAD + "Exception Type:  EXC_CRASH (SIGABRT)\nException Codes: 0x0000000000000000, 0x0000000000000000\n"
    "Termination Reason: SIMULATED\n\n" + MAIN + stack(1, "", [D + "0x1a0018348 start + 1238"]) + stack(2, " Attributed", STORY) + IMAGES)
deep = [STORY[0]] + [K + "0x104c3c558 0x104c3c000 + 1368"] * 34 + STORY[1:]
put("recursion.crash", HEAD + FAULT + MAIN + stack(1, " Crashed", deep) + IMAGES)
named = [K + "0x104c3c554 kiosk_fault + 16"] + [K + "0x104c3c558 walk + 4"] * 34 + [
    K + "0x104c3c55c helper + 2 [inlined]", K + "0x104c3c55c main + 32", STORY[2]]
put("recursion-named.crash", HEAD + FAULT + MAIN + stack(1, " Crashed", named) + IMAGES)
put("two-crashed.crash", HEAD + FAULT + MAIN + stack(1, " Crashed", STORY) + STATE
    + stack(1, " Crashed", [K + "0x104c3c558 0x104c3c000 + 1368", STORY[2]]) + IMAGES)
package = '{"install_date":"2021-01-29 10:57:17 -0500","name":"Kiosk","identifier":"com.example.kiosk","version":"1.16.0-1"}'
put("dpkg.crash", HEAD + FAULT + MAIN + f"""Thread 1 Crashed:
0   kiosk (*)                     	0x104c3c554 0x104c3c000 + 0x554 	// 0x00000530 + 0x24
1   kiosk (*)                     	0x104c3c55c 0x104c3c000 + 0x55c
2   dyld                          	0x1a0018344 0x1a0000000 + 0x18344 	// start + 0x4

Binary Images (dpkg):
0x104c3c000 - 0x104c43fff + kiosk arm64  <{plain(UUID)}> {PATH} {package}

Binary Images (Other):
0x1a0000000 - 0x1a008ffff   dyld arm64e  <{plain(DYLD)}> /usr/lib/dyld
""")
whole = HEAD + FAULT + MAIN + stack(1, " Crashed", STORY) + STATE + IMAGES
lines = whole.splitlines(keepends=True)
put("pasted.crash", "The kiosk died again:\n\n" + "".join("    " + line if line.strip() else line for line in lines))
torn = next(at for at, line in enumerate(lines) if line.startswith("1   kiosk"))
lines[torn] = "1   kiosk                         	       0x104c3c5\u2026 (cut)\n"
put("torn.crash", "".join(lines))
event = json.loads((here / "../foreign/event.json").read_text())
del event["contexts"]["app"]
event["release"] = "com.example.kiosk@2.1+77"
put("event-no-app.json", json.dumps(event) + "\n")

# Lines and inlined functions that the recorder's own system found.
first, body = (here / "../foreign/crash.ips").read_text().split("\n", 1)
body = json.loads(body)
body["usedImages"][0]["uuid"] = "4c4c44e2-5555-3144-a15d-000000000000"
body["threads"][1]["frames"] = [
    {"imageOffset": 1364, "symbol": "Swift._assertionFailure() -> Never", "inline": True, "imageIndex": 0,
     "sourceFile": "/<compiler-generated>"},
    {"imageOffset": 1364, "symbol": "assertion of price", "inline": True, "imageIndex": 0, "sourceFile": "price.swift",
     "sourceLine": 12},
    {"imageOffset": 1364, "symbol": "total(of:)", "symbolLocation": 36, "imageIndex": 0, "sourceFile": "till.swift", "sourceLine": 40},
    {"imageOffset": 1372, "symbol": "main", "symbolLocation": 8, "imageIndex": 0, "sourceFile": "main.swift", "sourceLine": 3},
    {"imageOffset": 99140, "symbol": "start", "symbolLocation": 1234, "imageIndex": 1}]
put("inlined.ips", first + "\n" + json.dumps(body, indent=1) + "\n")
put("side-by-side.crash", HEAD + FAULT + MAIN + stack(1, " Crashed", [
    K + "0x104c3c554 0x104c3c000 + 1364 (-[Till sum:] + 24)", K + "0x104c3c55c 0x104c3c000 + 1372 (main + 32)",
    D + "0x1a0018344 0x1a0000000 + 99140 (start + 4)"]) + IMAGES.replace(plain(UUID), "0" * 32))
put("spindump.txt", f"""Date/Time:        2024-05-01 12:00:00.250 +0200
End time:         2024-05-01 12:00:02.250 +0200
OS Version:       macOS 14.4 (Build 23E214)
Architecture:     arm64e
Report Version:   40

Data Source:      Stackshots
Shared Cache:     D949F5BB-14F3-3223-9E0F-EB9B0E5D53E8 slid base address 0x19b410000, slide 0x1b410000

Command:          kiosk
Path:             /Applications/kiosk.app/Contents/MacOS/kiosk
Version:          2.1 (77)
PID:              77

Duration:         2.00s
Steps:            20 (100ms sampling interval)

Hardware model:   Mac14,2
Active cpus:      8

--------------------------------------------------
Timeline format: stacks are sorted chronologically
Use -i and -heavy to re-report with count sorting
--------------------------------------------------

Heaviest stack for the main thread of the target process:
  20  start + 1903 (dyld + 99140) [0x1a0018344]
  15  main + 32 (kiosk + 1372) [0x104c3c55c]

Process:          kiosk [77]
UUID:             {UUID}
Path:             /Applications/kiosk.app/Contents/MacOS/kiosk
Num samples:      20 (1-20)

  Thread 0x1a2b    DispatchQueue "com.apple.main-thread"(1)    20 samples (1-20)    priority 46 (base 46)
  20  start + 1903 (dyld + 99140) [0x1a0018344] 1-20
    15  main + 32 (kiosk + 1372) [0x104c3c55c] 1-15
      15  ??? (kiosk + 1364) [0x104c3c554] 1-15

  Binary Images:
           0x104c3c000 -        0x104c43fff  com.example.kiosk 2.1 (77) <{UUID}>  /Applications/kiosk.app/Contents/MacOS/kiosk
           0x1a0000000 -        0x1a008ffff  dyld (1160.6) <{DYLD}>  /usr/lib/dyld
""")
put("sample.txt", f"""Analysis of sampling kiosk (pid 77) every 1 millisecond
Process:         kiosk [77]
Path:            /Applications/kiosk.app/Contents/MacOS/kiosk
Load Address:    0x104c3c000
Identifier:      com.example.kiosk
Version:         2.1 (77)
Code Type:       ARM64
Platform:        macOS
Parent Process:  launchd [1]

Date/Time:       2024-05-01 12:00:00.250 +0200
Launch Time:     2024-05-01 11:00:00.250 +0200
OS Version:      macOS 14.4 (23E214)
Report Version:  7
Analysis Tool:   /usr/bin/sample

Physical footprint:         12.3M
Physical footprint (peak):  13.3M
Idle exit:                  untracked
----

Call graph:
    80 Thread_1234   DispatchQueue_1: com.apple.main-thread  (serial)
    + 80 start  (in dyld) + 1903  [0x1a0018344]
    +   60 main  (in kiosk) + 32  [0x104c3c55c]
    +   ! 60 ???  (in kiosk)  load address 0x104c3c000 + 0x554  [0x104c3c554]
    +   20 main  (in kiosk) + 28  [0x104c3c558]
    80 Thread_1235: worker
      80 start  (in dyld) + 1907  [0x1a0018348]

Total number in stack (recursive counted multiple, when >=5):

Total number of samples in collection: 80

Sort by top of stack, same collapsed (when >= 5):
        ???  (in kiosk)        60

Binary Images:
       0x104c3c000 -        0x104c43fff +com.example.kiosk (2.1 - 77) <{UUID}> /Applications/kiosk.app/Contents/MacOS/kiosk
       0x1a0000000 -        0x1a008ffff  dyld (1160.6) <{DYLD}> /usr/lib/dyld
""")
put("jetsam.ips", header("298") + json.dumps({
    "build": "iPhone OS 17.4 (21E219)", "product": "iPhone15,2", "incident": "11111111-2222-3333-4444-555555555555",
    "memoryStatus": {"pageSize": 16384, "memoryPages": {"active": 1}}, "largestProcess": "kiosk",
    "processes": [{"pid": 77, "name": "kiosk", "uuid": UUID.lower(), "rpages": 90000, "reason": "per-process-limit"}]}, indent=1) + "\n")
