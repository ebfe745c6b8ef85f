// Simulates in the page: modules of WebAssembly step the states, a hand pulls links, sliders change
// numbers of the system.
const live = head.live, WINDOW = 10, NOTED = .02, LONGEST = .05, BUDGET = 40, CHARTED = 30, TOLD = 100;
const [REACHED, SPENT, , MARKED] = [0, 1, 2, 3];
const modules = [];
for (const each of live.modules) {
  const code = await inflated(each.block);
  modules.push(await Promise.resolve().then(() => WebAssembly.compile(code)).catch(() => {
    throw Error("this browser does not let the page compute (no WebAssembly)");
  }));
}

// ---- actors: robots, each with a module's memory of its own ---------------------------------------
class Actor {
  constructor(numbers, exported) {
    Object.assign(this, numbers, {layout: live.modules[numbers.module], exported});
    this.memory = new Float64Array(exported.memory.buffer);
    this.image = this.memory.slice();
    this.restart(numbers.own);
  }
  at(address, count) { return this.memory.subarray(address / 8, address / 8 + count); }
  cell(name) { return this.memory[this.layout.cells[name] / 8]; }
  put(name, value) { this.memory[this.layout.cells[name] / 8] = value; }
  give(name, value) {
    if (name in this.layout.given) this.memory[this.layout.given[name] / 8] = value;
  }
  get state() { return this.at(this.layout.y, this.layout.size); }
  get inputs() { return this.at(this.layout.own, this.own.length); }
  restart(own) {
    this.memory.set(this.image); this.state.set(this.y); this.own = own; this.inputs.set(own);
    this.marks = []; this.history = []; this.look();
  }
  // what a slider or the hand has changed: the rate kept from the last step is another one now
  change(index, value) {
    this.inputs[index] = value;
    if ("fresh" in this.layout.cells) this.put("fresh", 1); // a rate that is kept is another now
  }
  look() {
    const {look, links, n} = this.layout;
    this.memory[look.time / 8] = this.cell("t");
    this.exported.look(look.time, this.layout.y, this.layout.inputs, look.seen);
    const seen = this.at(look.seen, 18 * links + 5 + n);
    this.seen = {velocity: (link) => seen.subarray(12 * links + 6 * link, 12 * links + 6 * link + 6),
      center: seen.subarray(18 * links, 18 * links + 3), kinetic: seen[18 * links + 3],
      potential: seen[18 * links + 4], tau: seen.subarray(18 * links + 5),
      place: (link) => seen.subarray(12 * link, 12 * link + 12)};
  }
  places() {
    const [x, y, z] = this.offset;
    const found = [new Float32Array([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, x, y, z, 1])];
    for (let k = 0; k < this.layout.links; k++) {
      const T = this.seen.place(k); // rows of a 3 x 4 matrix
      found.push(new Float32Array([T[0], T[4], T[8], 0, T[1], T[5], T[9], 0, T[2], T[6], T[10], 0,
        T[3] + x, T[7] + y, T[11] + z, 1]));
    }
    return found;
  }
  // steps up to a time, noting states on the way; false if the process has ended or the clock has
  // passed the deadline
  follow(to, deadline) {
    const stride = Math.max(1, Math.round(NOTED / live.step));
    let k = Math.round(this.cell("t") / live.step), there = true;
    while (there && live.step * k < to) {
      k += stride;
      there = this.advance(Math.min(live.step * k, to), deadline);
      this.note();
    }
    return there;
  }
  advance(to, deadline) {
    this.give("least", 16 * Number.EPSILON * Math.max(1, to)); // the shortest step there is
    while (this.cell("t") < to) {
      const next = holding(this) ? Math.min(this.cell("t") + live.step, to) : to;
      if (holding(this)) pullWith(this);
      this.give("due", next); this.give("stop", next);
      let code;
      while ((code = this.exported.until(64)) !== REACHED) {
        if (code === MARKED) this.mark();
        else if (code !== SPENT) return false;
        else if (performance.now() > deadline) return false;
      }
    }
    return true;
  }
  mark() {
    for (const name of this.layout.marks)
      if (this.cell(name) > 0) this.marks.push([this.cell("mark_time"), name]);
    this.put("marked", 0);
  }
  note() {
    const t = this.cell("t"), h = this.history;
    if (h.length && t - h[h.length - 1].t < .99 * NOTED) return;
    this.look();
    h.push({t, kinetic: this.seen.kinetic, potential: this.seen.potential,
      q: this.state.slice(0, this.layout.nq), tau: this.seen.tau.slice()});
    while (h[0].t < t - WINDOW) h.shift();
  }
}
const actors = [];
for (const each of live.actors)
  actors.push(new Actor(each, (await WebAssembly.instantiate(modules[each.module])).exports));

// ---- the hand: a link is taken where the pointer meets it -----------------------------------------
let hand = null;
const holding = (actor) => hand !== null && hand.actor === actor;
// a spring and a damper between a point of the link and the pointer, as a wrench on the link
function pullWith(actor) {
  actor.look();
  const T = actor.seen.place(hand.link), [wx, wy, wz, ...v] = actor.seen.velocity(hand.link);
  const r = [0, 1, 2].map((i) => T[4 * i] * hand.point[0] + T[4 * i + 1] * hand.point[1] + T[4 * i + 2] * hand.point[2]);
  const p = [0, 1, 2].map((i) => T[4 * i + 3] + r[i]), rate = add(v, cross([wx, wy, wz], r));
  let f = add(sub(hand.target, p).map((x) => live.hand.stiffness * x), rate, -live.hand.damping);
  const size = Math.hypot(...f);
  if (size > live.hand.most) f = f.map((x) => x * live.hand.most / size);
  push(actor, hand.link, [...cross(r, f), ...f]);
  hand.at = p;
}
function push(actor, link, wrench) {
  wrench.forEach((x, k) => actor.change(actor.layout.wrenches + 6 * link + k, x));
}
function hold(actor, link, point, target) { hand = {actor, link, point, target, at: target}; }
function release() {
  if (hand) push(hand.actor, hand.link, [0, 0, 0, 0, 0, 0]);
  hand = null;
}
function ray(e) {
  const box = canvas.getBoundingClientRect(), aspect = box.width / box.height, axes = axesOf();
  const s = 1 / Math.tan(head.angle / 2) * Math.min(1, aspect / 1.15);
  const x = (2 * (e.clientX - box.left) / box.width - 1) * aspect / s;
  const y = (1 - 2 * (e.clientY - box.top) / box.height) / s;
  const eye = add(camera.target, camera.back, camera.far);
  return [eye, unit(add(add(axes[0].map((k) => k * x), axes[1], y), axes[2], -1))];
}
const inward = (T, p) => [0, 1, 2].map((j) => T[4 * j] * p[0] + T[4 * j + 1] * p[1] + T[4 * j + 2] * p[2]);
const bodies = head.parts.filter((part) => part.link && part.layer === "body").map((part) => ({link: part.link,
  low: part.low, extent: part.extent, v: unpack(part.v), f: unpack(part.f)}));
function pick(e) { // the nearest triangle on the ray [Moeller and Trumbore 1997]
  const [eye, d] = ray(e);
  let best = null;
  for (const actor of actors) {
    if (actor.ghost) continue;
    const places = actor.places();
    for (const {link, low, extent, v, f} of bodies) {
      const T = places[link], o = inward(T, sub(eye, [T[12], T[13], T[14]])), w = inward(T, d);
      const corner = (k) => [0, 1, 2].map((i) => low[i] + extent[i] * v[3 * k + i] / 65535);
      for (let k = 0; k < f.length; k += 3) {
        const a = corner(f[k]), e1 = sub(corner(f[k + 1]), a), e2 = sub(corner(f[k + 2]), a);
        const h = cross(w, e2), det = dot(e1, h), s = sub(o, a), u = dot(s, h) / det;
        if (!(u >= 0 && u <= 1)) continue;
        const c = cross(s, e1), z = dot(w, c) / det, far = dot(e2, c) / det;
        if (z >= 0 && u + z <= 1 && far > 0 && (!best || far < best.far))
          best = {actor, far, link: link - 1, point: add(o, w, far), world: add(eye, d, far)};
      }
    }
  }
  return best;
}
film.take = (e) => {
  const found = pick(e);
  if (!found) return false;
  hold(found.actor, found.link, found.point, sub(found.world, found.actor.offset));
  Object.assign(hand, {pointer: e.pointerId, depth: dot(sub(found.world, camera.target), camera.back)});
  main = actors.indexOf(found.actor); which.value = main;
  tell(`Holding ${live.links[found.link]}.`);
  return true;
};
film.pull = (e) => {
  if (!hand || hand.pointer !== e.pointerId) return false;
  const [eye, d] = ray(e), far = (hand.depth - dot(sub(eye, camera.target), camera.back)) / dot(d, camera.back);
  hand.target = sub(add(eye, d, far), hand.actor.offset);
  return true;
};
film.drop = (e) => { if (hand && hand.pointer === e.pointerId) { release(); tell(ABOUT); } };

// ---- what is shown ---------------------------------------------------------------------------------
let main = 0;
const MANY = 6; // more copies than this are drawn as sticks
const copies = () => actors.filter((each, k) => k !== main && each.ghost);
film.frame = () => ({places: actors[main].places(),
  others: actors.filter((each, k) => k !== main && !each.ghost).map((each) => each.places()),
  ghosts: copies().length > MANY ? [] : copies().map((each) => each.places()),
  center: add([...actors[main].seen.center], actors[main].offset)});
// sticks from joint to joint, and to the farthest point of a link that carries none
const sticks = live.parents.map((parent, k) => [parent, [0, 0, 0], k + 1, [0, 0, 0]]);
for (const {link, low, extent, v} of bodies) if (!live.parents.includes(link)) {
  let tip = [0, 0, 0];
  for (let k = 0; k < v.length; k += 3) {
    const p = [0, 1, 2].map((i) => low[i] + extent[i] * v[k + i] / 65535);
    if (dot(p, p) > dot(tip, tip)) tip = p;
  }
  sticks.push([link, [0, 0, 0], link, tip]);
}
const outward = (T, p) => [0, 1, 2].map((i) => T[12 + i] + T[i] * p[0] + T[4 + i] * p[1] + T[8 + i] * p[2]);
film.lines = (segment) => {
  if (copies().length <= MANY) return;
  copies().forEach((each, number) => {
    const T = each.places(), s = number / copies().length;
    for (const [a, p, b, q] of sticks) segment(outward(T[a], p), outward(T[b], q), [.2 + .6 * s, .45, .8 - .6 * s]);
  });
};
film.marks = (segment) => {
  if (hand) segment(add(hand.at, hand.actor.offset), add(hand.target, hand.actor.offset), [.84, .2, .1]);
};
const shownCurves = [["Energy, J", ["kinetic", "potential", "total"],
  (x) => [x.kinetic, x.potential, x.kinetic + x.potential]],
["Coordinates, rad or m", live.coordinates, (x) => x.q],
...(live.driven ? [["Joint forces, N m or N", live.rates, (x) => x.tau]] : [])].map(
  ([caption, names, values]) => ({area: figure(caption, names.slice(0, HUES.length)), values, count: Math.min(names.length, HUES.length)}));
let chart = 0, drawn = 0;
film.curves = () => {
  const known = actors[main].history, now = performance.now();
  if (known.length < 2 || (running && now - drawn < CHARTED)) return;
  drawn = now; chart = (chart + 1) % shownCurves.length;
  const end = known[known.length - 1].t, T = known.map((x) => x.t);
  for (const {area, values, count} of running ? [shownCurves[chart]] : shownCurves) { // one at a time
    const rows = known.map(values);
    drawChart(area, Math.max(0, end - WINDOW), Math.max(end, NOTED), [...Array(count).keys()].map((k) => (
      {T, Y: rows.map((row) => row[k])})), end);
  }
};

// ---- controls --------------------------------------------------------------------------------------
const play = make("button", {id: "play"}), fresh = make("button", {id: "restart", textContent: "Restart"});
const again = make("button", {textContent: "Reset view"}), clock = make("output", {id: "clock"});
const speed = make("select", {id: "speed", ariaLabel: "speed"}, ...[.1, .25, .5, 1, 2].map((x) =>
  make("option", {value: x, textContent: `${x}x`, selected: x === 1})));
const which = make("select", {id: "which", ariaLabel: "robot whose curves are shown"},
  ...actors.map((each, k) => make("option", {value: k, textContent: each.name})));
const tell = (words) => { byId("about").textContent = words; };
const ABOUT = "Drag a link to pull it, drag beside it to turn, shift-drag to shift, scroll to come nearer.";
let running = false, before = 0, debt = 0, late = 0, told = 0;
const press = () => { play.textContent = running ? "Pause" : "Run"; };
function run(wanted) {
  if (wanted && !running) { running = true; before = performance.now(); requestAnimationFrame(tick); }
  running = wanted; press();
  if (!running) { clockTells(); redraw(); } // curves and the clock as they stand
}
function restart() {
  release(); byId("problem").hidden = true; debt = 0;
  for (const each of actors) each.restart([...each.inputs.keys()].map((k) => k < each.layout.wrenches ? each.inputs[k] : each.own[k]));
  redraw(); clockTells();
}
play.onclick = () => run(!running);
fresh.onclick = () => { restart(); run(true); };
again.onclick = () => { reset(); redraw(); };
which.onchange = () => { main = Number(which.value); redraw(); };
byId("controls").append(make("div", {className: "line"}, play, fresh, speed,
  ...(actors.length > 1 ? [which] : []), again, clock));
const levels = new Map();
live.sliders.forEach((slider, number) => {
  const input = make("input", {type: "range", id: `slider-${number}`, min: slider.low, max: slider.high,
    step: "any", ariaLabel: slider.label});
  const out = make("output");
  const set = (value) => {
    input.value = value; out.textContent = `${Number(Number(value).toPrecision(3))} ${slider.unit}`;
    for (const each of actors)
      for (const [index, weight] of slider.columns[each.module]) each.change(index, weight * value);
    redraw();
  };
  input.oninput = () => set(Number(input.value));
  levels.set(slider.label, set);
  byId("controls").append(make("label", {className: "slider"}, make("span", {textContent: slider.label}), input, out));
  set(slider.value);
});
byId("controls").append(make("div", {className: "line"}, ...choices(MARKS)));
const clockTells = () => {
  clock.textContent = `${actors[main].cell("t").toFixed(2)} s${late > 5 ? ", slower than real time" : ""}`;
};
function end(actor) {
  const why = live.status[actor.cell("status")] ?? "ended";
  problem(why === "not finite" ? `${actor.name}: the motion has left what numbers can say; press Restart.`
    : `${actor.name}: ${why}; press Restart.`);
  run(false);
}
function tick(now) {
  if (!running) return;
  // a frame may begin before the click that asked for it
  debt += Math.min(Math.max((now - before) / 1000, 0), LONGEST) * Number(speed.value); before = now;
  const steps = Math.floor(debt / live.step), deadline = performance.now() + BUDGET;
  if (steps > 0) {
    debt -= steps * live.step;
    const to = live.step * (Math.round(actors[0].cell("t") / live.step) + steps);
    let reached = true;
    for (const each of actors) {
      const there = each.follow(to, deadline);
      if (!there && each.cell("status")) { end(each); break; }
      reached = reached && there;
    }
    late = reached ? 0 : late + 1;
  }
  if (now - told > TOLD || !running) { told = now; clockTells(); }
  redraw();
  if (running) requestAnimationFrame(tick);
}

// ---- begin -----------------------------------------------------------------------------------------
tell(ABOUT);
for (const note of head.notes) byId("notes").append(make("p", {textContent: note}));
press(); clockTells();
if (scene) byId("still").remove();
new ResizeObserver(redraw).observe(stage); dark.addEventListener("change", redraw);
redraw();
// for tests and for people with a console
globalThis.nlink = Object.freeze({
  state: (k = 0) => [...actors[k].state], time: (k = 0) => actors[k].cell("t"),
  status: (k = 0) => live.status[actors[k].cell("status")],
  marks: (k = 0) => actors[k].marks.map((each) => [...each]),
  energy: (k = 0) => { actors[k].look(); return actors[k].seen.kinetic + actors[k].seen.potential; },
  set: (label, value) => levels.get(label)(value), pause: () => run(false), run: () => run(true), restart,
  hold: (link, point, target, k = 0) => hold(actors[k], live.links.indexOf(link), point, target), release,
  push: (link, wrench, k = 0) => push(actors[k], live.links.indexOf(link), wrench),
  until: (times, k = 0) => {
    const states = times.map((t) => {
      actors[k].advance(t, Infinity); actors[k].note(); return [...actors[k].state]; });
    actors[k].look(); clockTells(); redraw();
    return states;
  },
  bench: (steps, k = 0) => {
    const start = performance.now(), t = actors[k].cell("t");
    actors[k].advance(t + steps * live.step, Infinity);
    return steps / (performance.now() - start) * 1000;
  }});
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) run(true);
document.documentElement.dataset.ready = "yes";
