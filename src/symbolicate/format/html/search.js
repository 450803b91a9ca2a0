// Searches the flame graph before this script: marks the boxes whose names have the text, and adds up their samples.
{
  const flame = document.currentScript.previousElementSibling;
  const search = document.createElement("input"), found = document.createElement("output");
  search.type = "search";
  search.placeholder = "Search the flame graph";
  search.setAttribute("aria-label", search.placeholder);
  flame.before(search, found);
  const isWithin = box => box.parentElement.parentElement.closest("div[id]:has(> a.found)");
  search.oninput = () => {
    const text = search.value.toLowerCase(), boxes = [...flame.querySelectorAll("a")];
    boxes.forEach(box => box.classList.toggle("found", text !== "" && box.textContent.toLowerCase().includes(text)));
    const marked = boxes.filter(box => box.classList.contains("found"));
    const outermost = marked.filter(box => !isWithin(box));
    const samples = outermost.reduce((sum, box) => sum + Number(box.dataset.samples), 0);
    found.textContent = text && ` ${marked.length} boxes, ${samples} of ${flame.dataset.samples} samples`;
  };
}
