// The scene of a page: unpacks its numbers, draws links with WebGL and curves on canvases. The script
// that follows in the same function says what is shown.
const head = JSON.parse(document.getElementById("head").textContent);
const byId = (name) => document.getElementById(name);
const stage = byId("stage"), canvas = byId("scene");
const problem = (words) => { byId("problem").textContent = words; byId("problem").hidden = false; };

// ---- numbers -------------------------------------------------------------------------------
// the bytes that a block of the page holds, deflated
async function inflated(name) {
  const packed = Uint8Array.from(atob(byId(name).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
const bytes = await inflated("data");
const TYPES = {float32: Float32Array, int16: Int16Array, uint16: Uint16Array, int8: Int8Array,
  int32: Int32Array};
function unpack(where) {
  const Type = TYPES[where.type], width = Type.BYTES_PER_ELEMENT;
  const count = where.shape.reduce((a, b) => a * b, 1), raw = new Uint8Array(count * width);
  for (let k = 0; k < width; k++)
    for (let i = 0; i < count; i++) raw[i * width + k] = bytes[where.start + k * count + i];
  const values = new Type(raw.buffer);
  if (where.sum) {
    const step = where.shape.length > 1 ? where.shape[1] : 1;
    for (let i = step; i < count; i++) values[i] += values[i - step];
  }
  return values;
}

// ---- small mathematics: 4x4 matrices by columns ----------------------------------------------
const sub = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const add = (a, b, k = 1) => [a[0] + k * b[0], a[1] + k * b[1], a[2] + k * b[2]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
  a[0] * b[1] - a[1] * b[0]];
const unit = (a) => { const s = Math.hypot(...a) || 1; return a.map((x) => x / s); };
function times(a, b) {
  const c = new Float32Array(16);
  for (let j = 0; j < 4; j++) for (let i = 0; i < 4; i++)
    c[4 * j + i] = a[i] * b[4 * j] + a[4 + i] * b[4 * j + 1] + a[8 + i] * b[4 * j + 2]
      + a[12 + i] * b[4 * j + 3];
  return c;
}
function frameAt(w, x, y, z, p) {
  return new Float32Array([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y), 0,
    2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x), 0,
    2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y), 0, p[0], p[1], p[2], 1]);
}
// ---- drawing -----------------------------------------------------------------------------------
// without a graphics card smooth edges take a third of a frame: pages that compute do without
const SMOOTH = {antialias: true, stencil: true, alpha: false};
const gl = (head.live ? canvas.getContext("webgl2", {...SMOOTH, failIfMajorPerformanceCaveat: true})
  ?? canvas.getContext("webgl2", {...SMOOTH, antialias: false}) : canvas.getContext("webgl2", SMOOTH));
if (!gl) { problem("This browser has no WebGL: a still picture of the first frame."); }
const SURFACE = [`#version 300 es
  uniform mat4 view, world; uniform vec3 low, extent, light, up; uniform float ground, flat_;
  in vec3 v, n; out vec3 normal, at;
  void main() {
    vec4 p = world * vec4(low + extent * v, 1.0);
    if (flat_ > 0.5) p.xyz -= light * ((dot(p.xyz, up) - ground) / dot(light, up));
    at = p.xyz; normal = mat3(world) * n; gl_Position = view * p; }`, `#version 300 es
  precision highp float;
  uniform vec4 colour; uniform vec3 eye, light, up; uniform float flat_;
  in vec3 normal, at; out vec4 pixel;
  void main() {
    if (flat_ > 0.5) { pixel = colour; return; }
    vec3 toward = normalize(eye - at), n = normalize(normal);
    if (dot(n, toward) < 0.0) n = -n;
    float sky = 0.5 + 0.5 * dot(n, up);
    float gloss = pow(max(dot(n, normalize(toward + light)), 0.0), 40.0);
    float bright = 0.30 + 0.28 * sky + 0.52 * max(dot(n, light), 0.0);
    pixel = vec4(min(colour.rgb * bright + 0.16 * gloss, vec3(1.0)), colour.a); }`];
const GROUND = [`#version 300 es
  uniform mat4 view; uniform vec3 a, b, middle; uniform float span; in vec2 v; out vec2 at;
  void main() { at = v * span; gl_Position = view * vec4(middle + at.x * a + at.y * b, 1.0); }`,
  `#version 300 es
  precision highp float;
  uniform vec3 ground, line, sky; uniform float span, cell; uniform vec2 offset; in vec2 at;
  out vec4 pixel;
  void main() {
    vec2 g = (at + offset) / cell, w = fwidth(g), d = abs(g - round(g));
    vec2 s = clamp(1.2 - d / max(w, vec2(1e-6)), 0.0, 1.0) * clamp(2.0 - 8.0 * w, 0.0, 1.0);
    float fade = clamp(1.15 - length(at) / span * 1.15, 0.0, 1.0);
    fade = fade * fade * (3.0 - 2.0 * fade);
    pixel = vec4(mix(sky, mix(ground, line, 0.8 * max(s.x, s.y)), fade), 1.0); }`];
const LINES = [`#version 300 es
  uniform mat4 view; in vec3 v; in vec3 n; out vec3 colour;
  void main() { colour = n; gl_Position = view * vec4(v, 1.0); }`, `#version 300 es
  precision highp float; in vec3 colour; out vec4 pixel;
  void main() { pixel = vec4(colour, 1.0); }`];
// programs are begun, all of them, before the first is asked for: asking waits
function begun([vertex, fragment]) {
  const made = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text); gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.bindAttribLocation(made, 0, "v"); gl.bindAttribLocation(made, 1, "n"); gl.linkProgram(made);
  return made;
}
function program(made) {
  const found = {made};
  if (!gl.getProgramParameter(made, gl.LINK_STATUS))
    throw Error(gl.getAttachedShaders(made).map((x) => gl.getShaderInfoLog(x)).join() || gl.getProgramInfoLog(made));
  for (let k = 0; k < gl.getProgramParameter(made, gl.ACTIVE_UNIFORMS); k++) {
    const name = gl.getActiveUniform(made, k).name;
    found[name] = gl.getUniformLocation(made, name);
  }
  return found;
}
function surface(v, n, f, more) {
  const vao = gl.createVertexArray(); gl.bindVertexArray(vao);
  for (const [place, data, kind] of [[0, v, v instanceof Uint16Array ? gl.UNSIGNED_SHORT : gl.FLOAT],
    [1, n, n instanceof Int8Array ? gl.BYTE : gl.FLOAT]]) {
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, 3, kind, kind !== gl.FLOAT, 0, 0);
  }
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, new Uint32Array(f), gl.STATIC_DRAW);
  return {vao, count: f.length, ...more};
}
function ball() {
  const v = [], f = [], rows = 12, columns = 20;
  for (let i = 0; i <= rows; i++) for (let j = 0; j <= columns; j++) {
    const a = Math.PI * i / rows, b = 2 * Math.PI * j / columns;
    v.push(Math.sin(a) * Math.cos(b), Math.sin(a) * Math.sin(b), Math.cos(a));
    if (i && j) {
      const k = i * (columns + 1) + j;
      f.push(k, k - 1, k - columns - 2, k, k - columns - 2, k - columns - 1);
    }
  }
  return surface(new Float32Array(v), new Float32Array(v), f,
    {low: [0, 0, 0], extent: [1, 1, 1]});
}
const dark = matchMedia("(prefers-color-scheme: dark)");
const COLOURS = () => dark.matches
  ? {sky: [.086, .094, .102], ground: [.125, .135, .148], line: [.24, .255, .275], shadow: .5}
  : {sky: [1, 1, 1], ground: [.965, .968, .975], line: [.80, .82, .85], shadow: .25};
const scene = gl && {surface: begun(SURFACE), ground: begun(GROUND), lines: begun(LINES)};
const parts = scene ? head.parts.map((part) => surface(unpack(part.v), unpack(part.n),
  unpack(part.f), part)) : [];
const sphere = scene && ball();
let square, wires, wireBuffer, wireColours;
if (scene) {
  for (const name in scene) scene[name] = program(scene[name]);
  square = gl.createVertexArray(); gl.bindVertexArray(square);
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]), gl.STATIC_DRAW);
  gl.enableVertexAttribArray(0); gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
  wires = gl.createVertexArray(); gl.bindVertexArray(wires);
  [wireBuffer, wireColours] = [0, 1].map((k) => {
    const buffer = gl.createBuffer(); gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.enableVertexAttribArray(k); gl.vertexAttribPointer(k, 3, gl.FLOAT, false, 0, 0);
    return buffer;
  });
}
const up = unit(head.upright);
const camera = {};
function reset() {
  camera.target = [...head.target];
  const back = sub(head.eye, head.target);
  camera.far = Math.hypot(...back); camera.back = unit(back);
  camera.right = unit(cross(up, camera.back));
}
reset();
const axesOf = () => {
  const right = unit(cross(up, camera.back));
  return [right, cross(camera.back, right), camera.back];
};
function viewMatrix(eye, axes, aspect) {
  const [x, y, z] = axes, near = camera.far / 200, far = camera.far * 20 + 40 * head.size;
  const s = 1 / Math.tan(head.angle / 2) * Math.min(1, aspect / 1.15);
  const look = new Float32Array([x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0,
    -dot(x, eye), -dot(y, eye), -dot(z, eye), 1]);
  return times(new Float32Array([s / aspect, 0, 0, 0, 0, s, 0, 0, 0, 0, (far + near) / (near - far),
    -1, 0, 0, 2 * far * near / (near - far), 0]), look);
}
const shown = {axes: false, frames: false, masses: false, inertias: false};
// what is shown, by the script that follows: places of links, others beside them, fainter copies, the
// centre of mass; lines among the links and over them; curves; what a pointer takes, pulls and drops
const film = {frame: () => ({places: [], others: [], ghosts: [], center: [0, 0, 0]}),
  lines: () => {}, marks: () => {}, curves: () => {}, take: () => false, pull: () => false,
  drop: () => {}};
function paint(item, world, colour, flat) {
  const s = scene.surface;
  gl.uniformMatrix4fv(s.world, false, world);
  gl.uniform3fv(s.low, item.low); gl.uniform3fv(s.extent, item.extent);
  gl.uniform4fv(s.colour, colour); gl.uniform1f(s.flat_, flat);
  // what is closed and not seen through has no backs: half of it need not be drawn
  if (item.closed && (flat || colour[3] > .99)) gl.enable(gl.CULL_FACE); else gl.disable(gl.CULL_FACE);
  gl.bindVertexArray(item.vao);
  gl.drawElements(gl.TRIANGLES, item.count, gl.UNSIGNED_INT, 0);
}
let pending = false;
function draw() {
  pending = false;
  film.curves();
  if (!scene) return;
  const scale = Math.min(devicePixelRatio || 1, 2);
  const w = Math.round(canvas.clientWidth * scale), h = Math.round(canvas.clientHeight * scale);
  if (!w || !h) return;
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const colours = COLOURS(), axes = axesOf(), eye = add(camera.target, camera.back, camera.far);
  const view = viewMatrix(eye, axes, w / h);
  const light = unit(add(add(up.map((x) => 1.6 * x), axes[2], .55), axes[0], -.75));
  gl.viewport(0, 0, w, h);
  gl.clearColor(...colours.sky, 1);
  gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT | gl.STENCIL_BUFFER_BIT);
  gl.disable(gl.BLEND); gl.disable(gl.CULL_FACE); gl.disable(gl.STENCIL_TEST);
  drawGround(view, colours);
  const {places, others, ghosts, center} = film.frame();
  const s = scene.surface;
  gl.useProgram(s.made); gl.uniformMatrix4fv(s.view, false, view);
  gl.uniform3fv(s.eye, eye); gl.uniform3fv(s.light, light); gl.uniform3fv(s.up, up);
  gl.uniform1f(s.ground, head.ground + 1e-4 * head.size);
  // the shadow: parts laid on the ground, each pixel darkened once
  gl.enable(gl.BLEND); gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  gl.enable(gl.STENCIL_TEST); gl.stencilFunc(gl.EQUAL, 0, 255); gl.stencilOp(gl.KEEP, gl.KEEP, gl.INCR);
  gl.depthMask(false);
  if (dot(eye, up) > head.ground)
    for (const robot of [places, ...others]) for (const part of parts) if (part.layer === "body")
      paint(part, robot[part.link], [0, 0, 0, colours.shadow], 1);
  gl.disable(gl.STENCIL_TEST); gl.depthMask(true); gl.disable(gl.BLEND);
  gl.enable(gl.DEPTH_TEST);
  const solid = parts.filter((part) => part.colour[3] > .99);
  for (const robot of [places, ...others]) for (const part of solid)
    paint(part, robot[part.link], part.colour, 0);
  if (shown.masses) {
    for (const [link, x, y, z] of head.masses)
      paint(sphere, times(places[link], sized(.012 * head.size, [x, y, z])), [.95, .7, .1, 1], 0);
    paint(sphere, sized(.022 * head.size, center), [.85, .2, .45, 1], 0);
  }
  drawLines(view, places);
  gl.enable(gl.BLEND); gl.useProgram(s.made);
  for (const ghost of ghosts) // each over what is there
    for (const pass of [0, 1]) { // depth first, so that a ghost does not shine through itself
      gl.colorMask(...Array(4).fill(pass > 0)); gl.depthFunc(pass ? gl.LEQUAL : gl.LESS);
      for (const part of solid) if (part.layer === "body")
        paint(part, ghost[part.link], [...part.colour.slice(0, 3), .22], 0);
      gl.depthFunc(gl.LESS);
    }
  gl.depthMask(false);
  for (const robot of [places, ...others]) for (const part of parts) if (part.colour[3] <= .99
      && (part.layer !== "contacts" || shown.contacts))
    paint(part, robot[part.link], part.colour, 0);
  if (shown.inertias) for (const [link, ...m] of head.inertias)
    paint(sphere, times(places[link], new Float32Array([m[0], m[1], m[2], 0, m[3], m[4], m[5], 0,
      m[6], m[7], m[8], 0, m[9], m[10], m[11], 1])), [.35, .55, .95, .35], 0);
  gl.depthMask(true);
}
const sized = (k, p) => new Float32Array([k, 0, 0, 0, 0, k, 0, 0, 0, 0, k, 0, ...p, 1]);
function drawGround(view, colours) {
  const g = scene.ground, e = [0, 1, 2].map((k) => Math.abs(up[k]));
  const first = [0, 0, 0]; first[e.indexOf(Math.min(...e))] = 1;
  const a = unit(cross(up, first)), b = cross(up, a);
  const middle = add(camera.target, up, head.ground - dot(camera.target, up));
  // a robot that flies far from itself has ground under all that the camera begins with
  const size = Math.max(head.size, .4 * Math.hypot(...sub(head.eye, head.target)));
  const step = 10 ** Math.floor(Math.log10(size / 2)), many = size / step;
  gl.useProgram(g.made); gl.disable(gl.DEPTH_TEST);
  gl.uniformMatrix4fv(g.view, false, view); gl.uniform3fv(g.a, a); gl.uniform3fv(g.b, b);
  gl.uniform3fv(g.middle, middle); gl.uniform1f(g.span, 3.2 * size);
  gl.uniform1f(g.cell, step * (many > 12 ? 5 : many > 6 ? 2 : 1));
  gl.uniform2f(g.offset, dot(middle, a), dot(middle, b));
  gl.uniform3fv(g.ground, colours.ground); gl.uniform3fv(g.line, colours.line);
  gl.uniform3fv(g.sky, colours.sky);
  gl.bindVertexArray(square); gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
}
function drawLines(view, places) {
  const v = [], c = [];
  const segment = (a, b, colour) => { v.push(...a, ...b); c.push(...colour, ...colour); };
  const column = (T, k) => [T[4 * k], T[4 * k + 1], T[4 * k + 2]];
  const arrow = (a, b, colour) => {
    segment(a, b, colour);
    const d = sub(b, a), side = unit(cross(d, camera.back)), tip = add(b, d, -.16);
    for (const k of [-.06, .06]) segment(b, add(tip, side, k * Math.hypot(...d)), colour);
  };
  film.lines(segment, arrow);
  const marks = () => {
    if (shown.axes) for (const [link, x, y, z, a, b, d] of head.axes) {
      const T = places[link], o = add(add(add(column(T, 3), column(T, 0), x), column(T, 1), y),
        column(T, 2), z);
      const n = add(add(column(T, 0).map((k) => a * k), column(T, 1), b), column(T, 2), d);
      arrow(add(o, n, -.08 * head.size), add(o, n, .14 * head.size), [.85, .2, .45]);
    }
    if (shown.frames) for (const T of places) for (let k = 0; k < 3; k++)
      segment(column(T, 3), add(column(T, 3), column(T, k), .09 * head.size),
        [[.85, .22, .2], [.2, .65, .3], [.25, .45, .95]][k]);
    film.marks(segment, arrow);
  };
  const overlay = v.length / 3;
  marks();
  if (!v.length) return;
  gl.useProgram(scene.lines.made); gl.uniformMatrix4fv(scene.lines.view, false, view);
  gl.bindVertexArray(wires);
  gl.bindBuffer(gl.ARRAY_BUFFER, wireBuffer); gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(v), gl.DYNAMIC_DRAW);
  gl.bindBuffer(gl.ARRAY_BUFFER, wireColours); gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(c), gl.DYNAMIC_DRAW);
  gl.drawArrays(gl.LINES, 0, overlay);
  gl.disable(gl.DEPTH_TEST); // what is inside of links is seen, too
  gl.drawArrays(gl.LINES, overlay, v.length / 3 - overlay);
  gl.enable(gl.DEPTH_TEST);
}
const redraw = () => { if (!pending) { pending = true; requestAnimationFrame(draw); } };


// ---- controls of every page ----------------------------------------------------------------------
const make = (tag, props = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), props); node.append(...children); return node;
};
// boxes that choose what is drawn
const choices = (known) => known.map(([key, words]) => {
  const box = make("input", {type: "checkbox", id: `show-${key}`, checked: shown[key]});
  box.onchange = () => { shown[key] = box.checked; redraw(); };
  return make("label", {}, box, words);
});
const MARKS = [["axes", "axes"], ["frames", "frames"], ["masses", "mass centres"], ["inertias", "inertias"],
  ...(head.parts.some((part) => part.layer === "contacts") ? [["contacts", "contact shapes"]] : [])];
// drag turns, shift or two fingers shift, the wheel or a pinch comes nearer
const fingers = new Map(); let spread = 0;
function turn(dx, dy) {
  const [right] = axesOf(), a = -dx * .008, c = Math.cos(a), s = Math.sin(a), b = camera.back;
  let back = add(add(b.map((x) => c * x), cross(up, b), s), up, (1 - c) * dot(up, b));
  const r = unit(cross(up, back)), e = -dy * .008;
  const tilted = add(back.map((x) => Math.cos(e) * x), cross(r, back), Math.sin(e));
  if (Math.abs(dot(tilted, up)) < .995) back = tilted;
  camera.back = unit(back);
}
function shift(dx, dy) {
  const [x, y] = axesOf(), k = 2 * camera.far * Math.tan(head.angle / 2) / canvas.clientHeight;
  camera.target = add(add(camera.target, x, -dx * k), y, dy * k);
}
canvas.onpointerdown = (e) => {
  canvas.setPointerCapture(e.pointerId);
  if (!fingers.size && !e.shiftKey && e.button === 0 && film.take(e)) return;
  fingers.set(e.pointerId, e); spread = 0;
};
canvas.onpointerup = canvas.onpointercancel = (e) => {
  film.drop(e); fingers.delete(e.pointerId); spread = 0;
};
canvas.onpointermove = (e) => {
  if (film.pull(e)) return;
  const last = fingers.get(e.pointerId);
  if (!last) return;
  const dx = e.clientX - last.clientX, dy = e.clientY - last.clientY;
  fingers.set(e.pointerId, e);
  if (fingers.size === 2) {
    const [a, b] = [...fingers.values()], wide = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
    if (spread) camera.far *= spread / wide;
    spread = wide; shift(dx / 2, dy / 2);
  } else if (e.shiftKey || e.buttons & 2) shift(dx, dy); else turn(dx, dy);
  redraw();
};
canvas.oncontextmenu = (e) => e.preventDefault();
canvas.addEventListener("wheel", (e) => {
  e.preventDefault(); camera.far *= Math.exp(e.deltaY * .001); redraw();
}, {passive: false});
canvas.onkeydown = (e) => {
  const move = {ArrowLeft: [-20, 0], ArrowRight: [20, 0], ArrowUp: [0, -20], ArrowDown: [0, 20]}[e.key];
  if (move) { e.preventDefault(); turn(...move); redraw(); }
  if (e.key === " ") { e.preventDefault(); byId("play").click(); }
};

// ---- charts ------------------------------------------------------------------------------------
const HUES = ["#0072b2", "#d55e00", "#00845f", "#b5578c", "#7a6f00", "#56a4e0", "#8a5a2b", "#6a4fb3",
  "#00838f", "#c2185b", "#607d8b", "#9e9d24"];
// a figure with a canvas for curves, and a key to their names
function figure(caption, names) {
  const area = make("canvas", {ariaLabel: caption}), key = make("div", {className: "key"});
  if (names.length > 1) names.forEach((name, k) => {
    const mark = make("i"); mark.style.background = HUES[k % HUES.length];
    key.append(make("span", {}, mark, name));
  });
  byId("curves").append(make("figure", {}, make("figcaption", {textContent: caption}), area, key));
  return area;
}
// curves over the time from `begin` to `end`, of so many times T and values Y each
function drawChart(area, begin, end, curves, now) {
  const scale = Math.min(devicePixelRatio || 1, 2), w = area.clientWidth, h = area.clientHeight;
  if (!w) return;
  if (area.width !== Math.round(w * scale)) { area.width = Math.round(w * scale); area.height = Math.round(h * scale); }
  // curves are a few thin lines, which a processor draws faster than it hands them over
  const pen = area.getContext("2d", {willReadFrequently: true}), style = getComputedStyle(document.body);
  const ink = style.getPropertyValue("--muted"), rule = style.getPropertyValue("--rule");
  pen.setTransform(scale, 0, 0, scale, 0, 0); pen.clearRect(0, 0, w, h);
  let low = Infinity, high = -Infinity;
  for (const {Y} of curves) for (const value of Y)
    if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  if (low > high) return;
  // what differs by less than the labels can say is a level line
  const large = Math.max(Math.abs(low), Math.abs(high), 1e-9), level = high - low < 2e-3 * large;
  const pad = level ? .01 * large : (high - low) * .08;
  low -= pad; high += pad;
  pen.font = "11px system-ui, sans-serif";
  const values = (level ? [.5] : [0, .5, 1]).map((s) => low + pad + s * (high - low - 2 * pad));
  const words = values.map((value) => // what is next to nothing beside the others is nothing
    String(Number((Math.abs(value) < 1e-3 * (high - low) ? 0 : value).toPrecision(3))));
  // as much room on the left as the longest label needs
  const left = area.left = Math.max(46, ...words.map((word) => pen.measureText(word).width + 10));
  const across = (time) => left + (time - begin) / (end - begin || 1) * (w - left - 6);
  const above = (value) => 8 + (high - value) / (high - low) * (h - 28);
  pen.fillStyle = ink; pen.strokeStyle = rule; pen.lineWidth = 1;
  pen.textAlign = "right"; pen.textBaseline = "middle";
  values.forEach((value, k) => {
    const y = above(value);
    pen.beginPath(); pen.moveTo(left, y); pen.lineTo(w - 6, y); pen.stroke();
    pen.fillText(words[k], left - 5, y);
  });
  pen.textBaseline = "alphabetic";
  for (const s of [0, .5, 1]) {
    pen.textAlign = ["left", "center", "right"][2 * s];
    pen.fillText(`${Number((begin + s * (end - begin)).toPrecision(3))} s`, across(begin + s * (end - begin)), h - 4);
  }
  curves.forEach(({T, Y}, number) => {
    pen.strokeStyle = HUES[number % HUES.length]; pen.lineWidth = 1.6; pen.beginPath();
    let open = false;
    for (let k = 0; k < Y.length; k++) {
      const value = Y[k];
      if (!Number.isFinite(value)) { open = false; continue; }
      if (open) pen.lineTo(across(T[k]), above(value)); else pen.moveTo(across(T[k]), above(value));
      open = true;
    }
    pen.stroke();
  });
  pen.strokeStyle = ink; pen.lineWidth = 1; pen.beginPath();
  pen.moveTo(across(now), 6); pen.lineTo(across(now), h - 20); pen.stroke();
}
