// Draws the use of every host on one canvas: one byte per host, written as pixels of an image. A click, or the
// arrow keys and Enter, lead to one host.
"use strict";
(() => {
  const DOWN = 255, DISABLED = 254, WITHOUT = 253, FULL = 200, LABEL_PX = 18;
  const root = document.querySelector("[data-heat]");
  const canvas = root.querySelector("canvas"), form = root.querySelector("form"), label = document.getElementById("heat-label");
  const paint = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
  let names = [], groups = [], tag = "", levels = new Uint8Array(0), cells = [], size = 4, columns = 1, chosen = -1;
  let drawn = null, asked = 0;

  const rgba = (r, g, b) => (255 << 24) | (b << 16) | (g << 8) | r;
  const mix = (a, b, t) => rgba(...a.map((from, i) => Math.round(from + (b[i] - from) * t)));
  const colours = new Uint32Array(256);
  for (let i = 0; i <= FULL; i++) {
    const half = i / (FULL / 2);
    colours[i] = half <= 1 ? mix([207, 232, 220], [232, 184, 74], half) : mix([232, 184, 74], [179, 21, 13], half - 1);
  }
  colours[WITHOUT] = rgba(225, 229, 226); colours[DISABLED] = rgba(123, 135, 144); colours[DOWN] = rgba(17, 17, 17);

  // What stands beside a name keeps its place, whichever way the name is written.
  const apart = (name) => /[^\x00-\x7f]/.test(name) ? "\u2068" + name + "\u2069" : name;
  const chosenOf = (name) => form.elements[name].value;

  // Cells are in the order of groups; each group begins below its label.
  function arrange() {
    const width = Math.max(200, canvas.clientWidth);
    const count = groups.reduce((sum, group) => sum + group.hosts.length, 0);
    size = Math.max(3, Math.min(26, Math.floor(Math.sqrt((width * 560) / Math.max(1, count)))));
    columns = Math.floor(width / size);
    let y = 0;
    cells = [];
    for (const group of groups) {
      group.y = y;
      group.first = cells.length;
      for (const host of group.hosts) cells.push(host);
      y += LABEL_PX + Math.ceil(group.hosts.length / columns) * size + 6;
    }
    const height = Math.max(40, y);
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; canvas.style.height = height + "px"; }
  }

  function draw() {
    const { width, height } = canvas;
    const image = paint.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const style = getComputedStyle(root);
    const [r, g, b] = style.backgroundColor.match(/\d+/g).map(Number);
    pixels.fill(rgba(r, g, b));
    const inner = size > 4 ? size - 1 : size;
    for (const group of groups) {
      const top = group.y + LABEL_PX;
      for (let i = 0; i < group.hosts.length; i++) {
        const level = levels[group.hosts[i]], colour = colours[level];
        const left = (i % columns) * size, y0 = top + Math.floor(i / columns) * size;
        for (let y = y0; y < y0 + inner; y++) pixels.fill(colour, y * width + left, y * width + left + inner);
        if (level === DOWN) {
          const middle = left + (inner >> 1);
          for (let y = y0; y < y0 + inner; y++) pixels[y * width + middle] = rgba(255, 77, 66);
        }
      }
    }
    paint.putImageData(image, 0, 0);
    paint.fillStyle = style.color;
    paint.font = "12px system-ui, sans-serif";
    for (const group of groups) paint.fillText(apart(group.name) + "  " + group.hosts.length, 0, group.y + 13);
    drawn = paint.getImageData(0, 0, width, height);
    if (chosen >= 0) outline(chosen);
  }

  function corner(cell) {
    const group = groups.findLast((one) => one.first <= cell), i = cell - group.first;
    return [(i % columns) * size, group.y + LABEL_PX + Math.floor(i / columns) * size];
  }

  function outline(cell) {
    const [x, y] = corner(cell);
    paint.strokeStyle = getComputedStyle(root).color;
    paint.lineWidth = 2;
    paint.strokeRect(x - 1, y - 1, size + 1, size + 1);
  }

  // Only what the last outline covered is painted again: a whole map of 100,000 hosts takes longer than a frame.
  function erase(cell) {
    const [x, y] = corner(cell);
    paint.putImageData(drawn, 0, 0, x - 3, y - 3, size + 6, size + 6);
  }

  function choose(cell) {
    if (chosen >= 0 && drawn) erase(chosen);
    chosen = Math.max(-1, Math.min(cells.length - 1, cell));
    const level = chosen < 0 ? 0 : levels[cells[chosen]];
    const words = level === DOWN ? "down" : level === DISABLED ? "disabled" : level === WITHOUT ? "has none" : Math.round((100 * level) / FULL) + " % used";
    label.textContent = chosen < 0 ? "\u00a0" : apart(names[cells[chosen]]) + ": " + words;
    if (chosen >= 0) outline(chosen);
  }

  function cellAt(event) {
    const x = event.offsetX, y = event.offsetY, group = groups.findLast((one) => one.y <= y);
    if (!group || y < group.y + LABEL_PX) return -1;
    const i = Math.floor((y - group.y - LABEL_PX) / size) * columns + Math.floor(x / size);
    return x < columns * size && i < group.hosts.length ? group.first + i : -1;
  }

  function open() {
    if (chosen >= 0) location.href = "/dashboard/hosts/named?name=" + encodeURIComponent(names[cells[chosen]]);
  }

  async function readLayout() {
    const answer = await fetch("/dashboard/hosts/layout?group=" + chosenOf("group"));
    if (!answer.ok) return;
    const found = await answer.json();
    tag = found.layout; names = found.names;
    groups = Object.entries(found.groups).map(([name, hosts]) => ({ name, hosts }));
    chosen = -1;
  }

  async function read(again = true) {
    const mine = ++asked;
    const answer = await fetch("/dashboard/hosts/heat?class=" + encodeURIComponent(chosenOf("class")));
    if (!answer.ok) return;
    const bytes = new Uint8Array(await answer.arrayBuffer());
    // An earlier answer may come later: it is of another class than the one that is chosen now.
    if (mine !== asked) return;
    if (new TextDecoder().decode(bytes.subarray(0, 16)) !== tag && again) { await readLayout(); return read(false); }
    levels = bytes.subarray(16);
    arrange();
    draw();
    if (chosen >= 0) choose(chosen);
    canvas.dataset.hosts = String(levels.length);
  }

  form.addEventListener("change", async (event) => {
    if (event.target.name === "group") tag = "";
    if (event.target.name !== "name") await read();
  });
  canvas.addEventListener("mousemove", (event) => { const cell = cellAt(event); if (cell !== chosen) choose(cell); });
  canvas.addEventListener("click", (event) => { choose(cellAt(event)); open(); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    if (step) { event.preventDefault(); choose(Math.max(0, chosen + step)); }
    else if (event.key === "Enter") open();
  });
  addEventListener("resize", () => { arrange(); draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.addEventListener("zonesched:news", () => read());
  read();
})();
