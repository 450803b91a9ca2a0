"""The pictures in a folder, in Chromium: what their pages then hold, how they look, and how they are used. See `run`."""
import pathlib
import shutil
import sys

import pypdfium2
from playwright.sync_api import sync_playwright

out = pathlib.Path(sys.argv[1])
keep = "--keep" in sys.argv[2:]
axe = (out / "axe-core/axe.min.js").read_text()
WIDE, NARROW = 1280, 390
WIDTHS_OF_WINDOWS = [360, 390, 700, 768, 1024, 1280, 1440]
# Pages of A4 that the ten bugs take.
MOST_PAGES = 12
PAGES = ["crash.html", "hang.html", "stall.html", "unnamed.html", "load.html", "top.html", "many.html", "group.html"]


def opened(name, width=WIDE, scheme="light", **more):
    """A page in a window of its own, offline. Scripts of the tests run in it although its policy allows none."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True, offline=True, **more)
    page = context.new_page()
    page.goto((out / name).as_uri())
    return page


def holds(name, *parts):
    page = opened(name)
    dom = page.content()
    text = page.evaluate("document.documentElement.textContent")
    for part in parts:
        assert part in dom or part in text, f"{name} as the browser has it lacks {part!r}"
    print(f"{name}: {len(dom)} characters as the browser has it")
    page.context.close()


OPEN = "document.querySelectorAll('details').forEach(fold => fold.open = true)"
# Elements that reach beyond the window, but for what scrolls within itself.
WIDER = """width => [...document.querySelectorAll("body *")].filter(part => part.getBoundingClientRect().right > width + 1
  && !part.closest("pre, .wide, .flame, svg")).map(part => part.className + ": " + part.textContent.slice(0, 60))"""
LONG = "[...document.querySelectorAll('pre.source')].filter(code => code.scrollWidth > code.clientWidth).length"


def looks(name, width, scheme):
    """Takes a picture of a page as it opens; nothing in it is wider than the window, and axe finds nothing, also with all folds open."""
    page = opened(name, width, scheme)
    picture = page.screenshot(path=out / f"{name}-{width}-{scheme}.png", full_page=True)
    audit(name, page, f"{width} px, {scheme}")
    page.evaluate(OPEN)
    wide = page.evaluate(WIDER, width)
    across = page.evaluate("document.documentElement.scrollWidth")
    assert not wide and across == width, f"{name} at {width} px takes {across} px: {wide[:3]}"
    audit(name, page, f"{width} px, {scheme}, open")
    long = page.evaluate(LONG)
    assert long > 0 or name != "stall.html", f"no line of {name} is too long for {width} px"
    page.context.close()
    return picture


def audit(name, page, how):
    page.evaluate(axe)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    lines = [f"{each['id']}: {each['help']}: " + "; ".join(node["html"][:120] + " " + (node["any"] or node["all"] or [{"message": ""}])[0]["message"]
             for node in each["nodes"][:3]) for each in found]
    assert not lines, f"axe on {name} ({how}):\n" + "\n".join(lines)


def printed(name):
    """Prints a page to paper: everything in folds is there, and no line of it is cut."""
    page = opened(name)
    page.emulate_media(media="print")
    paper = out / f"{name}.pdf"
    page.pdf(path=paper, format="A4")
    # Of a page of groups, the reports in whole, further source code and frames of others stay away.
    hidden = page.evaluate("[...document.querySelectorAll('summary ~ *')].filter(part => !part.closest('.group, .report') && !part.checkVisibility({contentVisibilityAuto: true})).length")
    cut = page.evaluate("[...document.querySelectorAll('pre, .wide')].filter(part => part.scrollWidth > part.clientWidth + 1 && getComputedStyle(part).overflowX != 'visible').length")
    assert hidden == 0 and cut == 0, f"{name} on paper: {hidden} parts of folds hidden, {cut} cut"
    document = pypdfium2.PdfDocument(paper)
    assert name not in ("top.html", "many.html") or len(document) <= MOST_PAGES, f"{name} takes {len(document)} pages"
    for number in range(min(len(document), 3)):
        document[number].render(scale=1.5).to_pil().save(out / f"{name}-print-{number + 1}.png")
    page.context.close()
    return "".join(document[number].get_textpage().get_text_range() for number in range(len(document)))


WIDTHS = "[...document.querySelectorAll('.flame div[id] > a')].filter(box => box.checkVisibility()).map(box => [box.textContent, Math.round(box.getBoundingClientRect().width)])"


def zooms(name, part):
    """Chooses a box of the flame graph by keyboard, and by a finger: it is as wide as the picture then, its siblings are gone, and its
    name is whole. The link before the picture shows all again."""
    for how in ["keyboard", "touch"]:
        page = opened(name, NARROW, has_touch=how == "touch")
        before = page.evaluate(WIDTHS)
        whole = page.evaluate("document.querySelector('.flame').getBoundingClientRect().width")
        box = page.locator(".flame a", has_text=part).first
        assert box.bounding_box()["width"] < whole * 0.98, f"{part} is wide already"
        if how == "touch":
            box.tap()
        else:
            page.locator(".note a", has_text="the whole picture").focus()
            for _ in range(300):
                page.keyboard.press("Tab")
                if page.evaluate("document.activeElement.textContent") == box.text_content():
                    break
            page.keyboard.press("Enter")
        assert abs(box.bounding_box()["width"] - whole) <= 2, f"{part} by {how}: {box.bounding_box()} of {whole}"
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight + 1"), f"the name of {part} is cut ({how})"
        assert len(page.evaluate(WIDTHS)) < len(before), f"{how}: no other box is gone"
        page.screenshot(path=out / f"{name}-zoomed-{how}.png", full_page=True)
        audit(name, page, f"zoomed by {how}")
        back = page.locator(".note a", has_text="the whole picture")
        back.tap() if how == "touch" else back.press("Enter")
        page.evaluate("document.activeElement.blur()")
        assert page.evaluate(WIDTHS) == before, f"{how}: the whole picture is not as before"
        page.context.close()
    print(f"{name}: {part} zooms by keyboard and touch, and back")


def searches(name, part, count, samples):
    """A text in the search field marks the boxes that have it, and their samples are added up once; the page's own policy holds."""
    context = browser.new_context(offline=True)
    page, errors = context.new_page(), []
    page.on("console", lambda message: errors.append(message.text))
    page.goto((out / name).as_uri())
    page.get_by_label("Search the flame graph").fill(part.upper())
    assert page.locator(".flame a.found").count() == count, f"{part} is marked {page.locator('.flame a.found').count()} times"
    said = page.locator("output").text_content().strip()
    assert said == f"{count} boxes, {samples} samples", said
    assert not errors, errors
    page.screenshot(path=out / f"{name}-search.png", full_page=True)
    page.get_by_label("Search the flame graph").fill("")
    assert page.locator(".flame a.found").count() == 0 and not page.locator("output").text_content()
    context.close()
    print(f"{name}: the search finds {part}")


def leads(name):
    """The links of the page of many lead to groups, and open the reports that they name."""
    page = opened(name)
    for link in page.locator(".groups a, .group a").all():
        target = link.get_attribute("href")
        link.click()
        assert page.locator(f"[id='{target[1:]}']").is_visible(), f"{target} of {name} is not shown"
    page.screenshot(path=out / f"{name}-report.png")
    page.context.close()


with sync_playwright() as play:
    browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--allow-file-access-from-files"])
    holds("crash.html", "kiosk_fault", "exit((int)(code & 0x7f));", "SIGSEGV")
    holds("hang.html", "Most frequent stack", "15 of 20 samples", "com.example.worker")
    # All that the app noted; frames of Rust's library and the system folded.
    holds("stall.html", "Samples", "406 ms", "Flame graph", "grain_grind", "page Checkout", "tapped Buy", "1.20 s (cold)", "58.3 frames a second",
          "frames: the language's library", "however narrow")
    holds("unnamed.html", "Samples", "400 ms", "Flame graph")
    holds("load.html", "Flame graph", "65% cpu average")
    holds("top.html", "16 reports in 4 groups", "Most frequent stack", "Systems")
    holds("group.html", "of those with any report", "by version", "In whole")
    for name in PAGES:
        for width in WIDTHS_OF_WINDOWS:
            light, dark = (looks(name, width, scheme) for scheme in ["light", "dark"])
            assert light != dark, f"{name} looks the same in the dark"
        printed(name)
        print(f"{name}: whole at {WIDTHS_OF_WINDOWS} px and on paper; axe finds nothing")
    assert "however narrow" in printed("stall.html").replace("\r\n", " ").replace("\n", " "), "the long line is cut on paper"
    zooms("stall.html", "grain_grind")
    searches("stall.html", "grain_grind", 4, "6 of 8")
    leads("many.html")
    browser.close()

if keep:
    from PIL import Image
    pictures = pathlib.Path("docs/pictures")
    pictures.mkdir(exist_ok=True)
    for width in [WIDE, NARROW]:
        for how in ["light", "dark"]:
            picture = Image.open(out / f"stall.html-{width}-{how}.png").convert("RGB").crop((0, 0, width, 1400)).quantize(48, dither=Image.Dither.NONE)
            picture.save(pictures / f"stall-{width}-{how}.png", optimize=True)
