// Reads regions of one Zarr v3 array, as a web viewer would: node read.mjs ARRAY REGIONS
//
// ARRAY is the array's folder, REGIONS a JSON list of regions, each a list of [start, stop], one for
// each dimension. Prints {"shape", "dtype"} on a line, then the bytes of the regions, C order.
// What zarrita says when it refuses goes to stderr, and the exit code is 1.

import { FileSystemStore } from "@zarrita/storage";
import { get, open, slice } from "zarrita";

const [folder, regions] = process.argv.slice(2);
const array = await open.v3(new FileSystemStore(folder), { kind: "array" });
process.stdout.write(JSON.stringify({ shape: array.shape, dtype: array.dtype }) + "\n");
for (const region of JSON.parse(regions)) {
	const { data } = await get(array, region.map(([start, stop]) => slice(start, stop)));
	process.stdout.write(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
}
