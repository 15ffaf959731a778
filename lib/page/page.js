// What report.html does when it is touched: the block under the pointer is named and highlighted, the legend tells the
// bytes at that instant, lines tell their values. Without this script everything is there but the single blocks.
"use strict";
(() => {
  const svg = (name) => document.createElementNS("http://www.w3.org/2000/svg", name);
  const count = (number) => number.toLocaleString("en-US");
  const bytes = (number) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    for (; number >= 1024 && unit + 1 < units.length; unit++) number /= 1024;
    return (unit === 0 ? number : number.toFixed(2)) + " " + units[unit];
  };
  const HEIGHT = 1000;  // of the drawing's coordinates

  // ---- one timeline: its columns, blocks, and the sums of what is too small to be a block of its own
  class Timeline {
    constructor(data, titles) {
      Object.assign(this, data);
      this.columns = this.positions.length;
      this.blocks = data.blocks.map(([size, taken, givenBack, component, name, module, op]) => ({
        size, taken, givenBack, component, name: this.names[name], module: this.names[module], op: this.names[op],
        first: this.columnOf(taken), end: givenBack < 0 ? this.columns : this.columnOf(givenBack),
      }));
      this.rest = data.rest.map((changes) => {
        const sums = new Float64Array(this.columns);
        for (let i = 0; i < changes.length; i += 2) sums.fill(changes[i + 1], changes[i]);
        return sums;
      });
      this.totals = this.rest.map((sums) => sums.slice());
      for (const block of this.blocks) {
        for (let c = block.first; c < block.end; c++) this.totals[block.component][c] += block.size;
      }
      this.titles = titles;
    }
    // The first column at or after a position.
    columnOf(position) {
      let low = 0, high = this.positions.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.positions[middle] < position) low = middle + 1; else high = middle;
      }
      return low;
    }
    phaseAt(position) {
      const phase = this.phases.find(([, begin, end]) => begin < position && position <= end);
      return phase ? phase[0].replaceAll("_", " ") : "";
    }
    // From the bottom up, what is alive in a column: [lower edge, size, block or null, component].
    layers(column) {
      const layers = [];
      let level = 0;
      this.totals.forEach((_, component) => {
        const rest = this.rest[component][column];
        if (rest > 0) layers.push([level, rest, null, component]);
        level += rest;
        for (const block of this.blocks) {
          if (block.component !== component || column < block.first || column >= block.end) continue;
          layers.push([level, block.size, block, component]);
          level += block.size;
        }
      });
      return layers;
    }
    // The lower edge of a block in each of its columns.
    lowerEdge(block) {
      const edge = new Float64Array(block.end - block.first);
      const add = (sums) => { for (let i = 0; i < edge.length; i++) edge[i] += sums[block.first + i]; };
      for (let component = 0; component < block.component; component++) add(this.totals[component]);
      add(this.rest[block.component]);
      for (const other of this.blocks) {
        if (other === block) break;
        if (other.component !== block.component) continue;
        const end = Math.min(other.end, block.end);
        for (let c = Math.max(other.first, block.first); c < end; c++) edge[c - block.first] += other.size;
      }
      return edge;
    }
    describe(block) {
      const phase = (position) => this.phaseAt(position) && ", " + this.phaseAt(position);
      const from = block.taken === 0 ? "alive before the step" : `from event ${count(block.taken)}${phase(block.taken)}`;
      const to = block.givenBack < 0 ? "beyond its end" : `to event ${count(block.givenBack)}${phase(block.givenBack)}`;
      const place = [block.name && block.module, block.op].filter(Boolean).join(", ");
      return [block.name || block.module || block.op || "a block without a name",
              `${this.titles[block.component]}, ${bytes(block.size)} (${count(block.size)} bytes), ${from}, ${to}` +
              (place && place !== block.name ? `; ${place}` : "")];
    }
  }

  // Steps along an edge, from left to right or back.
  const steps = (edge, first, y, backwards) => {
    let path = "", before = null;
    for (let k = 0; k < edge.length; k++) {
      const i = backwards ? edge.length - 1 - k : k;
      const at = y(edge[i]);
      if (at === before) continue;
      const x = backwards ? first + i + 1 : first + i;
      path += before === null ? `${backwards ? "L" : "M"}${x} ${at}` : `H${x}V${at}`;
      before = at;
    }
    return path + "H" + (backwards ? first : first + edge.length);
  };

  // The upper edges of all blocks that are high enough to be told apart.
  const edges = (timeline, y, smallest) => {
    let path = "";
    const level = new Float64Array(timeline.columns);
    timeline.totals.forEach((_, component) => {
      timeline.rest[component].forEach((size, column) => { level[column] += size; });
      for (const block of timeline.blocks) {
        if (block.component !== component) continue;
        for (let c = block.first; c < block.end; c++) level[c] += block.size;
        if (block.size >= smallest) path += steps(level.subarray(block.first, block.end), block.first, y, false);
      }
    });
    return path;
  };

  const startTimelines = () => {
    const source = document.getElementById("timelines");
    if (!source) return;
    const { top, timelines } = JSON.parse(source.textContent);
    const readout = document.querySelector("p.readout"), legend = [...document.querySelectorAll(".legend li")];
    const titles = {};
    for (const item of legend) titles[item.dataset.component] = item.childNodes[1].textContent;
    const y = (size) => Math.round((1 - size / top) * HEIGHT * 10) / 10;
    const silent = { text: readout.innerHTML, legend: legend.map((item) => item.lastChild.textContent) };
    const loaded = timelines.map((data) => data && new Timeline(data, titles));
    const areas = [...document.querySelectorAll(".timeline .area")];

    const views = areas.map((area, i) => {
      const timeline = loaded[i] || loaded[0];
      const drawing = area.querySelector("svg");
      const lines = svg("path"), hit = svg("path"), cross = document.createElement("div");
      lines.setAttribute("class", "edges");
      lines.setAttribute("d", edges(timeline, y, top * 2.5 / Math.max(area.clientHeight, 100)));
      hit.setAttribute("class", "hit");
      drawing.append(lines, hit);
      cross.className = "cross";
      cross.hidden = true;
      area.append(cross);
      return { area, timeline, hit, cross };
    });

    const tell = (strong, rest) => {
      readout.textContent = rest;
      const name = document.createElement("b");
      name.textContent = strong + " ";
      readout.prepend(name);
    };
    const show = (view, column, layer) => {
      const { timeline } = view, block = layer && layer[2];
      for (const other of views) {
        const same = other.timeline === timeline;
        other.cross.hidden = !same;
        other.cross.style.left = (column + 0.5) / timeline.columns * 100 + "%";
        other.hit.removeAttribute("d");
        if (!block || !same) continue;
        const edge = timeline.lowerEdge(block);
        other.hit.setAttribute("d", steps(edge.map((lower) => lower + block.size), block.first, y, false) +
                                    steps(edge, block.first, y, true) + "Z");
      }
      for (const item of legend) {
        const component = Number(item.dataset.component);
        item.lastChild.textContent = bytes(timeline.totals[component][column]);
        item.classList.toggle("on", Boolean(layer) && layer[3] === component);
      }
      const position = timeline.positions[column], phase = timeline.phaseAt(position);
      const alive = timeline.totals.reduce((sum, of) => sum + of[column], 0);
      if (block) {
        tell(...timeline.describe(block));
      } else if (layer) {
        tell("small blocks", `${titles[layer[3]]}, together ${bytes(layer[1])} at event ${count(position)}`);
      } else {
        tell(bytes(alive), `alive after event ${count(position)} of ${count(timeline.events)}${phase && ", " + phase}`);
      }
    };
    const clear = () => {
      for (const view of views) {
        view.cross.hidden = true;
        view.hit.removeAttribute("d");
      }
      readout.innerHTML = silent.text;
      legend.forEach((item, i) => {
        item.lastChild.textContent = silent.legend[i];
        item.classList.remove("on");
      });
    };

    for (const view of views) {
      const { area, timeline } = view;
      let column = 0, chosen = -1;  // for the keyboard: the layer that is told, -1 for the sum
      const point = (event) => {
        const box = area.getBoundingClientRect();
        const x = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
        const size = (1 - (event.clientY - box.top) / box.height) * top;
        column = Math.min(Math.floor(x * timeline.columns), timeline.columns - 1);
        const layers = timeline.layers(column);
        chosen = layers.findIndex(([level, height]) => level <= size && size < level + height);
        show(view, column, layers[chosen]);
      };
      area.addEventListener("pointermove", point);
      area.addEventListener("pointerdown", point);
      area.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") clear(); });
      area.addEventListener("blur", clear);
      area.addEventListener("keydown", (event) => {
        const far = event.shiftKey ? Math.ceil(timeline.columns / 40) : 1;
        const move = { ArrowLeft: [-far, 0], ArrowRight: [far, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
        if (event.key === "Escape") clear();
        if (!move) return;
        event.preventDefault();
        column = Math.min(Math.max(column + move[0], 0), timeline.columns - 1);
        const layers = timeline.layers(column);
        chosen = Math.min(Math.max(chosen + move[1], -1), layers.length - 1);
        show(view, column, layers[chosen]);
      });
    }
  };

  // ---- lines: the values nearest to the pointer
  const startLines = (figure) => {
    const series = JSON.parse(figure.querySelector("script").textContent);
    const area = figure.querySelector(".area"), readout = figure.querySelector(".readout");
    const cross = document.createElement("div");
    cross.className = "cross";
    cross.hidden = true;
    area.append(cross);
    const nearest = (points, x) =>
      points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
    const clear = () => {
      cross.hidden = true;
      readout.textContent = "";
    };
    const show = (x) => {
      const at = nearest(series.flatMap(({ points }) => points), x);
      cross.hidden = false;
      cross.style.left = at[0] * 100 + "%";
      const values = series.map(({ name, points }) => [name, points.find((point) => point[0] === at[0])])
        .filter(([, point]) => point).map(([name, point]) => (series.length > 1 ? name + " " : "") + point[2]);
      readout.textContent = [at[1], ...values].join(" · ");
      return at[0];
    };
    let x = 0;
    const point = (event) => {
      const box = area.getBoundingClientRect();
      x = show((event.clientX - box.left) / box.width);
    };
    area.addEventListener("pointermove", point);
    area.addEventListener("pointerdown", point);
    area.addEventListener("pointerleave", clear);
    area.addEventListener("blur", clear);
    area.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      const right = event.key === "ArrowRight";
      const places = series.flatMap(({ points }) => points.map((at) => at[0])).sort((a, b) => a - b);
      const next = right ? places.find((at) => at > x) : places.findLast((at) => at < x);
      x = show(next === undefined ? x : next);
    });
  };

  startTimelines();
  document.querySelectorAll("figure.lines").forEach(startLines);
})();
