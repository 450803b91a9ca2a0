"""The pictures in a folder, in Chromium: what their pages then hold, and how they look. See `run`."""
import base64
import html
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema

out = pathlib.Path(sys.argv[1])
keep = "--keep" in sys.argv[2:]
viewer = out / "speedscope/dist/release"


WIDE, NARROW = 1280, 400


def chromium(*args, dark=False, width=WIDE):
    with tempfile.TemporaryDirectory() as home:
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={home}",
                   # Nothing may come from elsewhere: no name has an address.
                   "--host-resolver-rules=MAP * ~NOTFOUND", f"--window-size={width},1400", "--allow-file-access-from-files", "--virtual-time-budget=8000"]
        if dark:
            command.append("--blink-settings=preferredColorScheme=0")
        run = subprocess.run([*command, *args], capture_output=True, text=True, timeout=120)
        return run.stdout


def page(url):
    return html.unescape(chromium("--dump-dom", url))


def shot(name, url, dark=False, width=WIDE):
    path = out / f"{name}.png"
    path.unlink(missing_ok=True)
    chromium(f"--screenshot={path}", url, dark=dark, width=width)
    size = path.stat().st_size
    # A blank page of this size takes some 5 KB.
    assert size > 10_000, f"{path} is blank ({size} bytes)"
    return path.read_bytes()


def holds(name, *parts):
    dom = page((out / name).as_uri())
    for part in parts:
        assert part in dom, f"{name} as the browser has it lacks {part!r}"
    print(f"{name}: {len(dom)} characters as the browser has it")


def fits(name, width):
    """Nothing of the page is wider than the window, but for what scrolls within itself; all folds are open."""
    frame = out / "frame.html"
    frame.write_text(f"""<!DOCTYPE html><body style="margin:0"><iframe id="page" src="{name}" style="border:0;width:{width}px;height:2000px"></iframe>
<script>onload = () => {{
  const inner = document.getElementById("page").contentDocument;
  inner.querySelectorAll("details").forEach(fold => fold.open = true);
  const wide = [...inner.querySelectorAll("body *")].filter(part => part.getBoundingClientRect().right > {width} + 1
    && !part.closest("pre, .wide, .flame, svg"));
  const long = [...inner.querySelectorAll("pre.source")].filter(code => code.scrollWidth > code.clientWidth).length;
  document.title = "long " + long + " width " + inner.documentElement.scrollWidth + " " + wide.slice(0, 3).map(part => part.className + ": " + part.textContent.slice(0, 60)).join("; ");
}}</script>""")
    title = re.search("<title>(.*?)</title>", page(frame.as_uri()), re.S)
    found = title and re.fullmatch(rf"long (\d+) width {width}", title[1].strip())
    assert found, f"{name} at {width} px: {title and title[1]}"
    print(f"{name} fits into {width} px; excerpts that scroll within themselves: {found[1]}")
    return int(found[1])


holds("crash.html", "kiosk_fault", "exit((int)(code & 0x7f));", "SIGSEGV")
holds("hang.html", "Heaviest stack", "15 of 20 samples", "com.example.worker")
# All that the app noted; frames of Rust's library and the system folded.
holds("stall.html", "Samples", "406 ms", "Flame graph", "grain_grind", "page Checkout", "tapped Buy", "1.20 s (cold)", "58.3 frames a second",
      "frames: the language's library", "however narrow")
holds("unnamed.html", "Samples", "400 ms", "Flame graph")
holds("load.html", "Flame graph", "65% cpu average")
holds("top.html", "16 reports in 4 groups")
holds("flame.svg", "kiosk_fault")
for name in ["crash.html", "hang.html", "stall.html", "unnamed.html", "load.html", "top.html"]:
    for width in [WIDE, NARROW]:
        light, dark = (shot(f"{name}-{width}-{how}", (out / name).as_uri(), how == "dark", width) for how in ["light", "dark"])
        assert light != dark, f"{name} looks the same in the dark"
        long = fits(name, width)
        assert long > 0 or name != "stall.html", f"no line of {name} is too long for {width} px"
shot("flame.svg", (out / "flame.svg").as_uri())

profile = json.loads((out / "all.speedscope.json").read_text())
jsonschema.validate(profile, json.loads((viewer / "file-format-schema.json").read_text()))
print(f"all.speedscope.json: {len(profile['profiles'])} profiles keep to the schema")

# The way that speedscope's own command gives its viewer a local file.
script = out / "profile.js"
text = base64.b64encode((out / "all.speedscope.json").read_bytes()).decode()
script.write_text(f"speedscope.loadFileFromBase64('all.speedscope.json', '{text}')")
url = f"{(viewer / 'index.html').as_uri()}#localProfilePath={script}"
dom = page(url)
title = re.search("<title>(.*?)</title>", dom)
assert title and "speedscope" in title[1] and title[1] != "speedscope", f"the viewer did not open it: {title and title[1]}"
print(f"speedscope's viewer shows: {title[1]}")
shot("speedscope", url)

if keep:
    from PIL import Image
    pictures = pathlib.Path("docs/pictures")
    pictures.mkdir(exist_ok=True)
    for width in [WIDE, NARROW]:
        for how in ["light", "dark"]:
            picture = Image.open(out / f"stall.html-{width}-{how}.png").convert("RGB").quantize(48, dither=Image.Dither.NONE)
            picture.save(pictures / f"stall-{width}-{how}.png", optimize=True)
