/** Loads the functions of a module and calls them with arrays.
 * @typedef {ArrayLike<number>} Numbers
 * @param {URL | string | BufferSource} [source] the module: an address or its bytes
 * @returns {Promise<Record<string, (...inputs: Numbers[]) => Float64Array | Record<string, Float64Array>>>}
 */
export async function load(source = new URL(FILE, import.meta.url)) {
  let bytes = source;
  if (source instanceof URL && source.protocol === "file:") {
    bytes = await (await import("node:fs/promises")).readFile(source);
  } else if (source instanceof URL || typeof source === "string") {
    const answer = await fetch(source);
    if (!answer.ok) throw new Error(`${source}: ${answer.status} ${answer.statusText}`);
    bytes = await answer.arrayBuffer();
  }
  const { instance } = await WebAssembly.instantiate(bytes);
  const { memory, ...functions } = instance.exports;
  const at = (port) => new Float64Array(memory.buffer, port.address, port.size);
  const call = (name, { inputs, outputs }) => (...given) => {
    if (given.length !== inputs.length) {
      throw new TypeError(`${name}: ${given.length} arguments, expected ${inputs.length}: `
        + inputs.map((port) => port.name).join(", "));
    }
    inputs.forEach((port, k) => {
      if (given[k]?.length !== port.size) {
        throw new RangeError(`${name}: ${port.name} has the length ${given[k]?.length}, expected ${port.size}`);
      }
      at(port).set(given[k]);
    });
    functions[name](...[...inputs, ...outputs].map((port) => port.address));
    const found = outputs.map((port) => at(port).slice());
    return outputs.length === 1 ? found[0]
      : Object.fromEntries(outputs.map((port, k) => [port.name, found[k]]));
  };
  return Object.fromEntries(Object.entries(FUNCTIONS).map(([name, ports]) => [name, call(name, ports)]));
}
