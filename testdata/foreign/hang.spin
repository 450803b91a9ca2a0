Date/Time:        2024-05-01 12:00:00.250 +0200
End time:         2024-05-01 12:00:02.250 +0200
OS Version:       macOS 14.4 (Build 23E214)
Architecture:     arm64
Report Version:   35.1
Incident Identifier: 11111111-2222-3333-4444-c1a0e13fa16a

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
  20  start + 1234 (dyld + 99140) [0x1a0018344]
  20  ??? (kiosk + 1372) [0x104c3c55c]
  15  ??? (kiosk + 1364) [0x104c3c554]

Process:          kiosk [77]
UUID:             4C4C44E2-5555-3144-A15D-8DB1B87DBB83
Footprint:        12.3 MB

  Thread 0x1a2b    DispatchQueue "com.apple.main-thread"(1)    20 samples (1-20)    priority 46 (base 46)    cpu time 1.9s
  20  start + 1234 (dyld + 99140) [0x1a0018344] 1-20
    20  ??? (kiosk + 1372) [0x104c3c55c] 1-20
      15  ??? (kiosk + 1364) [0x104c3c554] 1-15
       *4  ??? (kernel.release.t8112 + 4321) [0xfffffe00078e10e1] 3-6
      5  ??? (kiosk + 1368) [0x104c3c558] 16-20

  Thread 0x1a2c    Thread name "com.example.worker"    20 samples (1-20)    priority 31 (base 31)
  20  start + 1234 (dyld + 99140) [0x1a0018344] 1-20

  Binary Images:
           0x104c3c000 -        0x104c43fff  com.example.kiosk 2.1 (77) <4C4C44E2-5555-3144-A15D-8DB1B87DBB83>  /Applications/My Kiosk.app/Contents/MacOS/kiosk
           0x1a0000000 -        0x1a008ffff  dyld (1160.6) <341BBF64-6034-357E-8AA6-E1E4B988E03C>  /usr/lib/dyld

Process:          launchd [1]
UUID:             00000000-0000-0000-0000-000000000001

  Thread 0x1    20 samples (1-20)    priority 31 (base 31)
  20  ??? (launchd + 1) [0x104c3c001] 1-20
