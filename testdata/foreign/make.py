#!/usr/bin/env python3
"""Writes the samples of this folder; see README.md."""
import hashlib, json, pathlib, struct

here = pathlib.Path(__file__).parent
uuid = (here / "../macho/golden/arm64.uuid").read_text().split()[-1].strip().upper().replace("-", "")
uuid = f"{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}"
dyld = "341BBF64-6034-357E-8AA6-E1E4B988E03C"
base, size, dyld_base, dyld_size = 0x104C3C000, 0x8000, 0x1A0000000, 0x90000
pc, caller, start = base + 0x554, base + 0x55C, dyld_base + 0x18344
path = "/private/var/containers/Bundle/Application/1/My Kiosk.app/kiosk"
incident = "11111111-2222-3333-4444-555555555555"


def put(name, data):
    """Writes a file; its report has an id of its own, by its name: reports with one id are copies."""
    own = hashlib.sha1(name.encode()).hexdigest()[:12]
    data = data if isinstance(data, bytes) else data.encode()
    ids = [id.encode() for id in [incident, incident.replace("-", "")]] + [bytes.fromhex(incident.replace("-", ""))]
    for id, end in zip(ids, [own.encode(), own.encode(), bytes.fromhex(own)]):
        data = data.replace(id, id[:-len(end)] + end)
    (here / name).write_bytes(data)


def dump(name, value, **how):
    put(name, json.dumps(value, **how) + "\n")


# --- .ips
header = {"app_name": "kiosk", "timestamp": "2024-05-01 12:00:00.00 +0200", "app_version": "2.1", "build_version": "77",
          "bug_type": "309", "os_version": "iPhone OS 17.4 (21E219)", "incident_id": incident, "later": 1}
frames = [{"imageOffset": 0x554, "imageIndex": 0}, {"imageOffset": 0x55C, "imageIndex": 0},
          {"imageOffset": 0x18344, "symbol": "start", "symbolLocation": 1234, "imageIndex": 1}]
images = [{"source": "P", "arch": "arm64", "base": base, "size": size, "uuid": uuid.lower(), "path": path, "name": "kiosk"},
          {"source": "P", "arch": "arm64e", "base": dyld_base, "size": dyld_size, "uuid": dyld.lower(), "path": "/usr/lib/dyld", "name": "dyld"},
          {"size": 0, "source": "A", "base": 0, "uuid": "00000000-0000-0000-0000-000000000000"}]
body = {"captureTime": "2024-05-01 12:00:00.2500 +0200", "incident": incident, "pid": 77, "cpuType": "ARM-64", "procName": "kiosk",
        "procPath": path, "modelCode": "iPhone15,2", "bundleInfo": {"CFBundleShortVersionString": "2.1", "CFBundleVersion": "77"},
        "osVersion": {"train": "iPhone OS 17.4", "build": "21E219"},
        "exception": {"codes": "0x1, 0x10", "rawCodes": [1, 16], "type": "EXC_BAD_ACCESS", "signal": "SIGSEGV",
                      "subtype": "KERN_INVALID_ADDRESS at 0x0000000000000010"},
        "termination": {"code": 11, "namespace": "SIGNAL", "indicator": "Segmentation fault: 11"},
        "somethingNew": {"of": ["next", "year"]}, "faultingThread": 1,
        "threads": [{"id": 1, "queue": "com.apple.main-thread", "frames": [{"imageOffset": 0x18344, "imageIndex": 1}]},
                    {"id": 2, "triggered": True, "novelty": 5, "frames": frames,
                     "threadState": {"x": [{"value": 1}, {"value": 2}], "flavor": "ARM_THREAD_STATE64",
                                     "pc": {"value": pc}, "sp": {"value": 0x16B1C3000}}}],
        "usedImages": images}
put("crash.ips", json.dumps(header) + "\n" + json.dumps(body, indent=2) + "\n")
thrown = dict(body, exception={"type": "EXC_CRASH", "signal": "SIGABRT", "codes": "0x0, 0x0", "rawCodes": [0, 0]},
              lastExceptionBacktrace=[{"imageOffset": 0x55C, "imageIndex": 0}, {"imageOffset": 0x18344, "imageIndex": 1}],
              asi={"CoreFoundation": ["*** Terminating app due to uncaught exception"]})
put("exception.ips", json.dumps(header) + "\n" + json.dumps(thrown) + "\n")

# --- hangs and spins
hang = f"""Date/Time:        2024-05-01 12:00:00.250 +0200
End time:         2024-05-01 12:00:02.250 +0200
OS Version:       macOS 14.4 (Build 23E214)
Architecture:     arm64
Report Version:   35.1
Incident Identifier: {incident}

Data Source:      Stackshots
Novel Label:      new this year

Command:          kiosk
Path:             /Applications/My Kiosk.app/Contents/MacOS/kiosk
Identifier:       com.example.kiosk
Version:          2.1 (77)
PID:              77

Event:            hang
Duration:         4.20s
Steps:            20 (100ms sampling interval)

Hardware model:   Mac14,2
Active cpus:      8

--------------------------------------------------

Heaviest stack for the main thread of the target process:
  20  start + 1234 (dyld + 99140) [0x{start:x}]
  20  ??? (kiosk + 1372) [0x{caller:x}]
  15  ??? (kiosk + 1364) [0x{pc:x}]

Process:          kiosk [77]
UUID:             {uuid}
Footprint:        12.3 MB

  Thread 0x1a2b    DispatchQueue "com.apple.main-thread"(1)    20 samples (1-20)    priority 46 (base 46)    cpu time 1.9s
  20  start + 1234 (dyld + 99140) [0x{start:x}] 1-20
    20  ??? (kiosk + 1372) [0x{caller:x}] 1-20
      15  ??? (kiosk + 1364) [0x{pc:x}] 1-15
       *4  ??? (kernel.release.t8112 + 4321) [0xfffffe00078e10e1] 3-6
      5  ??? (kiosk + 1368) [0x{pc + 4:x}] 16-20

  Thread 0x1a2c    Thread name "com.example.worker"    20 samples (1-20)    priority 31 (base 31)
  20  start + 1234 (dyld + 99140) [0x{start:x}] 1-20

  Binary Images:
           0x{base:x} -        0x{base + size - 1:x}  com.example.kiosk 2.1 (77) <{uuid}>  /Applications/My Kiosk.app/Contents/MacOS/kiosk
           0x{dyld_base:x} -        0x{dyld_base + dyld_size - 1:x}  dyld (1160.6) <{dyld}>  /usr/lib/dyld

Process:          launchd [1]
UUID:             00000000-0000-0000-0000-000000000001

  Thread 0x1    20 samples (1-20)    priority 31 (base 31)
  20  ??? (launchd + 1) [0x104c3c001] 1-20
"""
put("hang.spin", hang)
put("hang-text.ips", json.dumps(dict(header, bug_type="288")) + "\n" + hang)
put("hang.ips", json.dumps(dict(header, bug_type="288")) + "\n" + json.dumps({
    "incident": incident, "date": "2024-05-01 12:00:00.25 +0200", "build": "iPhone OS 17.4 (21E219)", "product": "iPhone15,2",
    "reason": "the main thread of kiosk did not answer", "duration": "4.20s", "pid": 77, "somethingNew": {"of": ["next", "year"]},
    "binaryImages": [[uuid.lower(), base, "P"], [dyld.lower(), dyld_base, "S"]],
    "processByPid": {
        "1": {"procname": "launchd", "threadById": {"9": {"userFrames": [[1, 16]]}}},
        "77": {"procname": "kiosk", "residentMemoryBytes": 12300000, "threadById": {
            "6699": {"dispatch_queue_label": "com.apple.main-thread", "state": ["TH_RUN"], "novelty": 5,
                     "userFrames": [[0, 0x554], [0, 0x55C], [1, 0x18344]]},
            "6700": {"name": "com.example.worker", "userFrames": [[1, 0x18344]]}}}}}) + "\n")

# --- .crash
put("crash.crash", f"""Incident Identifier: {incident}
CrashReporter Key:   0
Hardware Model:      iPhone15,2
Process:             kiosk [77]
Path:                {path}
Identifier:          com.example.kiosk
Version:             2.1 (77)
Code Type:           ARM-64 (Native)
Novel Label:         new this year

Date/Time:           2024-05-01 12:00:00.2500 +0200
OS Version:          iPhone OS 17.4 (21E219)
Report Version:      104

Exception Type:  EXC_BAD_ACCESS (SIGSEGV)
Exception Subtype: KERN_INVALID_ADDRESS at 0x0000000000000010
Exception Codes: 0x0000000000000001, 0x0000000000000010
Termination Reason: SIGNAL 11 Segmentation fault: 11
Triggered by Thread:  1

Application Specific Information:
the till is open

Thread 0 name:   Dispatch queue: com.apple.main-thread
Thread 0:
0   dyld                          \t       {start:#x} start + 1234

Thread 1 Crashed:
0   kiosk                         \t       {pc:#x} {base:#x} + {0x554}
1   kiosk                         \t       {caller:#x} {base:#x} + {0x55c}
2   dyld                          \t       {start:#x} start + 1234

Thread 1 crashed with ARM Thread State (64-bit):
    x0: 0x0000000000000001   x1: 0x0000000000000002
    sp: 0x000000016b1c3000   pc: {pc:#018x}

Binary Images:
       {base:#x} -        {base + size - 1:#x} kiosk arm64  <{uuid.replace('-', '').lower()}> {path}
       {dyld_base:#x} -        {dyld_base + dyld_size - 1:#x} dyld arm64e  <{dyld.replace('-', '').lower()}> /usr/lib/dyld

EOF
""")


# --- MetricKit
def nested(stack, count=1):
    tree = []
    for frame in reversed(stack):
        tree = [dict(frame, sampleCount=count, **({"subFrames": tree} if tree else {}))]
    return tree


def metrickit(name, offset):
    def at(address):
        mine = address < dyld_base
        image, id, low = ("kiosk", uuid, base) if mine else ("dyld", dyld, dyld_base)
        return {"binaryUUID": id, "binaryName": image, "address": address,
                "offsetIntoBinaryTextSegment": address - low if offset else low}
    meta = {"appVersion": "2.1", "appBuildVersion": "77", "osVersion": "iPhone OS 17.4 (21E219)", "deviceType": "iPhone15,2",
            "platformArchitecture": "arm64", "regionFormat": "DE", "bundleIdentifier": "com.example.kiosk", "pid": 77}
    stack = [at(pc), at(caller), at(start)]
    dump(name, {"timeStampBegin": "2024-05-01 00:00:00", "timeStampEnd": "2024-05-01 10:00:00", "crashDiagnostics": [{
        "version": "1.0.0", "diagnosticMetaData": dict(meta, exceptionType=1, exceptionCode=1, signal=11,
            terminationReason="Namespace SIGNAL, Code 0xb",
            virtualMemoryRegionInfo="0x10 is not in any region.  Bytes before following region: 4307517424"),
        "callStackTree": {"callStackPerThread": True, "callStacks": [
            {"threadAttributed": False, "callStackRootFrames": nested([at(start)])},
            {"threadAttributed": True, "callStackRootFrames": nested(stack)}]}}],
        "hangDiagnostics": [{"version": "1.0.0", "diagnosticMetaData": dict(meta, hangDuration="20 sec"),
            "callStackTree": {"callStackPerThread": True, "callStacks": [
                {"threadAttributed": True, "callStackRootFrames": nested(stack, 20)}]}}]})
    return at, meta


at, meta = metrickit("metrickit-offset.json", True)
metrickit("metrickit-address.json", False)
branching = dict(at(start), sampleCount=10, subFrames=[
    dict(at(caller), sampleCount=7, subFrames=[dict(at(pc), sampleCount=6)]), dict(at(caller + 8), sampleCount=3)])
dump("metrickit-deep.json", {"hangDiagnostics": [
    {"diagnosticMetaData": dict(meta, hangDuration="1,500 ms"), "callStackTree": {"callStackPerThread": True, "callStacks": [
        {"threadAttributed": True, "callStackRootFrames": nested([at(pc)] + [at(caller)] * 398 + [at(start)])}]}}],
    "cpuExceptionDiagnostics": [{"diagnosticMetaData": dict(meta, totalCPUTime="20 sec"), "callStackTree": {
        "callStackPerThread": False, "callStacks": [{"callStackRootFrames": [branching]}]}}]})

# --- KSCrash
ks_images = [{"image_addr": base, "image_vmaddr": 0x100000000, "image_size": size, "name": path, "uuid": uuid,
              "cpu_type": 16777228, "cpu_subtype": 0},
             {"image_addr": dyld_base, "image_vmaddr": 0, "image_size": dyld_size, "name": "/usr/lib/dyld", "uuid": dyld,
              "cpu_type": 16777228, "cpu_subtype": 2}]
def contents(*addresses):
    return [{"instruction_addr": a, "object_addr": base, "object_name": "kiosk", "symbol_addr": 0, "symbol_name": None} for a in addresses]
ks = {"report": {"id": incident, "version": "3.3.0", "timestamp": 1714557600250000, "type": "standard", "process_name": "kiosk"},
      "system": {"system_name": "iOS", "system_version": "17.4", "os_version": "21E219", "machine": "iPhone15,2", "cpu_arch": "arm64",
                 "process_id": 77, "process_name": "kiosk", "CFBundleShortVersionString": "2.1", "CFBundleVersion": "77",
                 "memory": {"size": 6000000000, "free": 100000000, "usable": 5000000000}, "jailbroken": False},
      "crash": {"error": {"type": "mach", "address": 16, "mach": {"exception": 1, "exception_name": "EXC_BAD_ACCESS", "code": 1,
                          "code_name": "KERN_INVALID_ADDRESS", "subcode": 16}, "signal": {"signal": 11, "name": "SIGSEGV", "code": 0}},
                "threads": [{"index": 0, "crashed": False, "dispatch_queue": "com.apple.main-thread",
                             "backtrace": {"contents": contents(start), "skipped": 0}},
                            {"index": 1, "crashed": True, "current_thread": True, "registers": {"basic": {"x0": 1, "pc": pc}},
                             "backtrace": {"contents": contents(pc, caller, start), "skipped": 0}}]},
      "binary_images": ks_images, "user": {"screen": "Checkout"}}
dump("kscrash.json", ks)
dead = json.loads(json.dumps(ks))
dead["crash"]["error"] = {"type": "deadlock", "address": 0, "reason": "main thread deadlock"}
dump("kscrash-deadlock.json", dead)

# --- event
stack = {"frames": [{"instruction_addr": hex(a), "image_addr": hex(base), "package": path} for a in (start, caller, pc)],
         "registers": {"x0": "0x1", "pc": hex(pc)}}
dump("event.json", {"event_id": incident.replace("-", ""), "timestamp": "2024-05-01T10:00:00.25Z", "platform": "cocoa", "level": "fatal",
     "contexts": {"os": {"name": "iOS", "version": "17.4", "build": "21E219"}, "device": {"model": "iPhone15,2", "arch": "arm64"},
                  "app": {"app_name": "kiosk", "app_version": "2.1", "app_build": "77"}},
     "exception": {"values": [{"type": "EXC_BAD_ACCESS", "value": "bad access", "thread_id": 1, "stacktrace": stack,
                   "mechanism": {"type": "mach", "handled": False, "meta": {"signal": {"number": 11, "code": 0, "name": "SIGSEGV"}}}}]},
     "threads": {"values": [{"id": 0, "crashed": False, "stacktrace": {"frames": [{"instruction_addr": hex(start)}]}},
                            {"id": 1, "crashed": True}]},
     "debug_meta": {"images": [{"type": "macho", "debug_id": uuid, "code_file": path, "image_addr": hex(base), "image_size": size,
                                "image_vmaddr": "0x100000000", "arch": "arm64"},
                               {"type": "macho", "debug_id": dyld, "code_file": "/usr/lib/dyld", "image_addr": hex(dyld_base),
                                "image_size": dyld_size}]}})


# --- PLCrashReporter
def varint(n):
    out = b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def message(*fields):
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


raw = bytes.fromhex
processor = message((1, 1), (2, 16777228), (3, 0))
def image(low, length, name, id):
    return message((1, low), (2, length), (3, name), (4, raw(id.replace("-", ""))), (5, processor))
def frame(a, *symbol):
    return message((3, a), *symbol)
report = message(
    (1, message((1, 1), (2, "17.4"), (3, 6), (4, 1714557600), (5, "21E219"))),
    (2, message((1, "com.example.kiosk"), (2, "77"), (3, "2.1"))),
    (3, message((1, 0), (2, frame(start)), (3, 0))),
    (3, message((1, 1), (2, frame(pc)), (2, frame(caller)), (2, frame(start, (6, message((1, "_start"), (2, start - 1234))))), (3, 1),
                (4, message((1, "x0"), (2, 1))), (4, message((1, "pc"), (2, pc))))),
    (4, image(base, size, path, uuid)), (4, image(dyld_base, dyld_size, "/usr/lib/dyld", dyld)),
    (6, message((1, "SIGSEGV"), (2, "SEGV_MAPERR"), (3, 16), (4, message((1, 1), (2, 1), (2, 16))))),
    (7, message((1, "kiosk"), (2, 77), (3, path), (4, "launchd"), (5, 1), (6, 1))),
    (8, message((1, "iPhone15,2"), (2, processor), (3, 6), (4, 6))),
    (9, message((1, 0), (2, raw(incident.replace("-", ""))))),
    (10, "custom"), (99, "of a later version"))
put("crash.plcrash", b"plcrash\x01" + report)
