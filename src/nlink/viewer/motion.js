// Plays a motion that has been computed: frames, with the controls of a player.
const t = unpack(head.t), F = t.length, R = head.trajectories, L = head.links;
const P = unpack(head.p), Q = unpack(head.r), trace = unpack(head.trace);
const forces = unpack(head.forces), points = unpack(head.points), center = unpack(head.center);
const acting = head.forces.shape[2];

// the pose of a link between two frames: places in a straight line, turns by the shorter way
function pose(link, run, at) {
  const k = Math.min(Math.floor(at), F - 1), m = Math.min(k + 1, F - 1), s = at - k;
  const p = [], q = [];
  for (let i = 0; i < 3; i++) {
    const base = ((link * 3 + i) * R + run) * F;
    p.push(P[base + k] * (1 - s) + P[base + m] * s);
  }
  for (let i = 0; i < 4; i++) {
    const base = ((link * 4 + i) * R + run) * F;
    q.push(Q[base + k] * (1 - s) + Q[base + m] * s);
  }
  const [w, x, y, z] = unit(q);
  return frameAt(w, x, y, z, p);
}

// ---- what is shown -----------------------------------------------------------------------------
Object.assign(shown, {now: 0, playing: false, speed: 1, which: R > 1 ? -1 : 0, trace: true, forces: true});
function frameNumber() {
  let low = 0, high = F - 1;
  while (high - low > 1) { const m = (low + high) >> 1; if (t[m] <= shown.now) low = m; else high = m; }
  const d = t[high] - t[low];
  return F < 2 ? 0 : low + (d > 0 ? Math.min(1, Math.max(0, (shown.now - t[low]) / d)) : 0);
}
film.frame = () => {
  const at = frameNumber(), main = Math.max(shown.which, 0), k = 3 * (main * F + Math.round(at));
  const placed = (run) => [...Array(L).keys()].map((link) => pose(link, run, at));
  return {places: placed(main), others: [], center: center.slice(k, k + 3),
    ghosts: shown.which < 0 ? [...Array(R - 1).keys()].map((run) => placed(run + 1)) : []};
};
film.lines = (segment) => {
  const at = frameNumber(), main = Math.max(shown.which, 0);
  if (shown.trace) for (let run = 0; run < R; run++) {
    if (shown.which >= 0 && run !== shown.which) continue;
    const colour = run === main ? [.84, .37, 0] : [.6, .55, .5];
    for (let k = 0; k + 1 <= at && k + 1 < F; k++) {
      const base = 3 * (run * F + k);
      segment([...trace.subarray(base, base + 3)], [...trace.subarray(base + 3, base + 6)], colour);
    }
  }
};
film.marks = (segment, arrow) => {
  const at = frameNumber(), main = Math.max(shown.which, 0);
  if (shown.forces && acting) {
    const run = main * F + Math.min(Math.round(at), F - 1);
    for (let k = 0; k < acting; k++) {
      const base = 3 * (run * acting + k), p = [...points.subarray(base, base + 3)];
      const f = [...forces.subarray(base, base + 3)];
      if (f.some(Math.abs)) arrow(p, add(p, f), [.1, .6, .35]);
    }
  }
};

// ---- controls ----------------------------------------------------------------------------------
const begin = t[0], end = t[F - 1];
const slider = make("input", {type: "range", id: "time", min: begin, max: end, step: "any", value: begin,
  ariaLabel: "time"});
const clock = make("output", {id: "clock"}), play = make("button", {id: "play", textContent: "Play"});
const speed = make("select", {id: "speed", ariaLabel: "speed"}, ...[.1, .25, .5, 1, 2, 5].map((x) =>
  make("option", {value: x, textContent: `${x}x`, selected: x === 1})));
const again = make("button", {textContent: "Reset view"});
byId("controls").append(make("div", {className: "line time"}, play, slider, clock));
const line = make("div", {className: "line"}, speed, again);
if (R > 1) {
  const which = make("select", {id: "which", ariaLabel: "trajectory"},
    make("option", {value: -1, textContent: `all ${R}${head.total > R ? ` of ${head.total}` : ""}`}),
    ...[...Array(R).keys()].map((k) => make("option", {value: k, textContent: `trajectory ${k + 1}`})));
  which.onchange = () => { shown.which = Number(which.value); redraw(); };
  line.append(which);
}
line.append(...choices([["trace", `trace of ${head.traced}`],
  ...(acting ? [["forces", "forces"]] : []), ...MARKS]));
byId("controls").append(line);
const tell = () => { clock.textContent = `${shown.now.toFixed(2)} s`; slider.value = shown.now; };
slider.oninput = () => { shown.now = Number(slider.value); shown.playing = false; tell(); press(); redraw(); };
const press = () => { play.textContent = shown.playing ? "Pause" : "Play"; };
let before = 0;
function tick(now) {
  if (!shown.playing) return;
  shown.now += Math.min(now - before, 100) / 1000 * shown.speed; before = now;
  if (shown.now > end) shown.now = end > begin ? begin : end;
  tell(); redraw(); requestAnimationFrame(tick);
}
play.onclick = () => {
  shown.playing = !shown.playing; press();
  if (shown.playing) { before = performance.now(); requestAnimationFrame(tick); }
};
if (head.playing && !matchMedia("(prefers-reduced-motion: reduce)").matches) play.click();
speed.onchange = () => { shown.speed = Number(speed.value); };
again.onclick = () => { reset(); redraw(); };
// ---- curves ------------------------------------------------------------------------------------
const charts = [];
function chart(caption, curves) {
  const area = figure(caption, curves.map((curve) => curve.name));
  area.onpointerdown = area.onpointermove = (e) => {
    if (e.type === "pointermove" && !e.buttons) return;
    const box = area.getBoundingClientRect(), left = area.left || 46;
    const s = (e.clientX - box.left - left) / (box.width - left - 6);
    shown.now = begin + Math.min(1, Math.max(0, s)) * (end - begin); shown.playing = false;
    tell(); press(); redraw();
  };
  charts.push({area, curves});
}
if (!head.compact) {
  chart("Energy, J", [{y: unpack(head.energy)}]);
  chart("Coordinates, rad or m", head.curves.map((curve) => ({name: curve.name, y: unpack(curve.y)})));
}
film.curves = () => {
  const run = Math.max(shown.which, 0);
  for (const {area, curves} of charts) drawChart(area, begin, end, curves.map(({y}) => (
    {T: t, Y: y.subarray(run * F, run * F + F)})), shown.now);
};

// ---- begin -------------------------------------------------------------------------------------
const ends = [...new Set(head.status)].join(", ");
byId("about").textContent = `${head.total > 1 ? `${head.total} trajectories, ` : ""}${begin.toFixed(1)} to `
  + `${end.toFixed(1)} s, ${ends}. Drag to turn, shift-drag to shift, scroll to come nearer.`;
for (const note of head.notes) byId("notes").append(make("p", {textContent: note}));
shown.now = begin; tell();
if (scene) byId("still").remove();
new ResizeObserver(redraw).observe(stage); dark.addEventListener("change", redraw);
redraw();
document.documentElement.dataset.ready = "yes";
