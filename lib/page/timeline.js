// The picture of a step: any stretch of it, to the single event, with each block named under the pointer. Without this
// script the whole step is there, by component.
(() => {
  const HEIGHT = 1000;   // of the drawing's coordinates
  const COLUMNS = 1200;  // at most
  const FEWEST = 12;     // events in the narrowest stretch
  const count = (number) => number.toLocaleString("en-US");
  const bytes = (number) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    for (; number >= 1023.995 && unit + 1 < units.length; unit++) number /= 1024;
    if (unit === 0) return number + " B";
    return number.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 }) + " " + units[unit];
  };
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const svg = (name, style) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    element.setAttribute("class", style);
    return element;
  };
  const div = (style, parent) => {
    const element = document.createElement("div");
    element.className = style;
    parent.append(element);
    return element;
  };

  // ---- all blocks of a step, as columns of numbers: positions count its events, a block is alive at taken <= p < end
  class Timeline {
    constructor(data, components) {
      Object.assign(this, { events: data.events, phases: data.phases, names: data.names, labels: data.labels, components });
      const blocks = data.blocks, total = blocks.length / 4;
      this.total = total;
      this.size = new Float64Array(total);
      this.label = new Uint32Array(total);
      this.component = new Uint8Array(total);
      this.taken = new Int32Array(total);
      this.end = new Int32Array(total);
      this.live = new Float64Array(this.events + 2);
      for (let i = 0, taken = 0; i < total; i++) {
        const [size, label, since, life] = [blocks[4 * i], blocks[4 * i + 1], blocks[4 * i + 2], blocks[4 * i + 3]];
        taken += since;
        this.size[i] = data.sizes[size];
        this.label[i] = label;
        this.component[i] = data.labels[label][0];
        this.taken[i] = taken;
        this.end[i] = life === 0 ? this.events + 1 : taken + life;
        this.live[taken] += this.size[i];
        this.live[this.end[i]] -= this.size[i];
      }
      for (let p = 1; p <= this.events; p++) this.live[p] += this.live[p - 1];
      this.peak = 0;
      for (let p = 1; p <= this.events; p++) if (this.live[p] > this.live[this.peak]) this.peak = p;
    }
    phaseAt(position) {
      const phase = this.phases.find(([, begin, end]) => begin < position && position <= end);
      return phase ? phase[0].replaceAll("_", " ") : "";
    }
    // What is alive at a position from the bottom up, [lower edge, block]; within a component in the order of taking.
    layers(position) {
      const of = Array.from({ length: this.components }, () => []);
      for (let i = 0; i < this.total; i++) {
        if (this.taken[i] > position) break;
        if (this.end[i] > position && this.size[i] > 0) of[this.component[i]].push(i);
      }
      let level = 0;
      return of.flat().map((block) => {
        const layer = [level, block];
        level += this.size[block];
        return layer;
      });
    }
    describe(block) {
      const [component, name, module, op] = this.labels[this.label[block]].map((id, i) => (i === 0 ? id : this.names[id]));
      const when = (position) => {
        const phase = this.phaseAt(position);
        return `event ${count(position)}` + (phase && `, ${phase}`);
      };
      const from = this.taken[block] === 0 ? "alive before the step" : `from ${when(this.taken[block])}`;
      const to = this.end[block] > this.events ? "beyond its end" : `to ${when(this.end[block])}`;
      return { name: name || module || op || "a block without a name", component, size: this.size[block],
               place: [name && module !== name && module, op].filter(Boolean).join(", "), life: `${from}, ${to}` };
    }
  }

  // ---- a stretch of it, [first, last], in columns: each shows the largest instant of its part
  class Stretch {
    constructor(timeline, first, last) {
      Object.assign(this, { timeline, first, last });
      const length = last - first + 1, columns = Math.min(length, COLUMNS);
      this.columns = columns;
      this.positions = new Int32Array(columns);
      for (let c = 0; c < columns; c++) {
        const begin = first + Math.floor(length * c / columns), end = first + Math.floor(length * (c + 1) / columns);
        let best = begin;
        for (let p = begin + 1; p < end; p++) if (timeline.live[p] > timeline.live[best]) best = p;
        this.positions[c] = best;
      }
      this.sums = Array.from({ length: timeline.components }, () => new Float64Array(columns + 1));
      for (let i = 0; i < timeline.total && timeline.taken[i] <= last; i++) {
        if (timeline.end[i] <= first) continue;
        const sums = this.sums[timeline.component[i]];
        sums[this.columnOf(timeline.taken[i])] += timeline.size[i];
        sums[this.columnOf(timeline.end[i])] -= timeline.size[i];
      }
      for (const sums of this.sums) for (let c = 1; c < columns; c++) sums[c] += sums[c - 1];
    }
    // The first column at or after a position; columns if there is none.
    columnOf(position) {
      let low = 0, high = this.columns;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.positions[middle] < position) low = middle + 1; else high = middle;
      }
      return low;
    }
    // Where a position stands, 0 … 1.
    share(position) { return clamp((position - this.first + 0.5) / (this.last - this.first + 1), 0, 1); }
    span(block) { return [this.columnOf(this.timeline.taken[block]), this.columnOf(this.timeline.end[block])]; }
    // The lower edge of a block in each of its columns.
    lowerEdge(block) {
      const { timeline } = this, [first, end] = this.span(block), own = timeline.component[block];
      const edge = new Float64Array(end - first + 1);
      for (let i = 0; i < block; i++) {
        if (timeline.component[i] !== own || timeline.end[i] <= this.first) continue;
        const [from, to] = this.span(i), a = clamp(from, first, end), b = clamp(to, first, end);
        if (a === b) continue;
        edge[a - first] += timeline.size[i];
        edge[b - first] -= timeline.size[i];
      }
      for (let k = 1; k < edge.length; k++) edge[k] += edge[k - 1];
      for (let c = 0; c < own; c++) for (let k = 0; k + 1 < edge.length; k++) edge[k] += this.sums[c][first + k];
      return edge.subarray(0, end - first);
    }
    // Outlines of the blocks that are high enough to be told apart.
    outlines(y, smallest) {
      const { timeline } = this, level = new Float64Array(this.columns);
      let path = "";
      for (let component = 0; component < timeline.components; component++) {
        for (let i = 0; i < timeline.total && timeline.taken[i] <= this.last; i++) {
          if (timeline.component[i] !== component || timeline.end[i] <= this.first) continue;
          const [first, end] = this.span(i), size = timeline.size[i];
          for (let c = first; c < end; c++) level[c] += size;
          if (size >= smallest && end > first) path += steps(level.subarray(first, end), first, y, false);
        }
      }
      return path;
    }
  }

  // Steps along an edge, from left to right or back.
  const steps = (edge, first, y, backwards) => {
    let path = "", before = null;
    for (let k = 0; k < edge.length; k++) {
      const i = backwards ? edge.length - 1 - k : k, at = y(edge[i]);
      if (at === before) continue;
      const x = backwards ? first + i + 1 : first + i;
      path += before === null ? `${backwards ? "L" : "M"}${x} ${at}` : `H${x}V${at}`;
      before = at;
    }
    return path + "H" + (backwards ? first : first + edge.length);
  };

  // ---- one figure: draws the stretch that all figures of the page share
  class View {
    constructor(figure, timeline, y) {
      Object.assign(this, { figure, timeline, y });
      this.area = figure.querySelector(".area");
      this.drawing = this.area.querySelector("svg");
      this.areas = [...this.drawing.querySelectorAll(".areas path")].reverse();  // by component, the lowest first
      this.lines = svg("path", "edges");
      this.hit = svg("path", "hit");
      this.drawing.append(this.lines, this.hit);
      this.cross = div("cross", this.area);
      this.band = div("band", this.area);
      this.cross.hidden = this.band.hidden = true;
      this.bounds = timeline.phases.slice(1).map(() => div("bound", this.area));
      this.phases = [...figure.querySelectorAll(".phases span")];
      this.ends = figure.querySelectorAll(".events span");
      this.peak = figure.querySelector(".peak");
    }
    draw(first, last) {
      const { timeline, y } = this;
      this.stretch = new Stretch(timeline, first, Math.min(last, timeline.events));
      const { stretch } = this, whole = first === 0 && last >= timeline.events;
      this.drawing.setAttribute("viewBox", `0 0 ${stretch.columns} ${HEIGHT}`);
      const grid = this.drawing.querySelector(".grid");
      grid.setAttribute("d", grid.getAttribute("d").replace(/H[\d.]+/g, "H" + stretch.columns));
      const upper = new Float64Array(stretch.columns);
      this.areas.forEach((path, component) => {
        for (let c = 0; c < stretch.columns; c++) upper[c] += stretch.sums[component][c];
        path.setAttribute("d", `${steps(upper, 0, y, false)}V${HEIGHT}H0Z`);
      });
      this.lines.setAttribute("d", stretch.outlines(y, this.top * 2.5 / Math.max(this.area.clientHeight, 100)));
      timeline.phases.forEach(([, begin, end], i) => {
        const left = whole && i === 0 ? 0 : stretch.share(begin + 0.5), right = stretch.share(end + 0.5);
        this.phases[i].style.left = left * 100 + "%";
        this.phases[i].style.width = (right - left) * 100 + "%";
        this.phases[i].classList.toggle("narrow", (right - left) * this.area.clientWidth < 7 * timeline.phases[i][0].length + 8);
        if (i > 0) {
          this.bounds[i - 1].hidden = left <= 0 || left >= 1;
          this.bounds[i - 1].style.left = left * 100 + "%";
        }
      });
      this.ends[0].textContent = first === 0 ? "before the step" : "event " + count(first);
      this.ends[1].textContent = "event " + count(stretch.last);
      this.peak.hidden = timeline.peak < first || timeline.peak > last;
      const at = stretch.share(timeline.peak);
      this.peak.style.left = at * 100 + "%";
      this.peak.classList.toggle("before", at > 0.9);
      this.peak.classList.toggle("after", at < 0.1);
      this.clear();
    }
    // Marks a column and a block of it; null: the column alone.
    mark(column, block) {
      const { stretch, y } = this;
      this.cross.hidden = false;
      this.cross.style.left = (column + 0.5) / stretch.columns * 100 + "%";
      this.hit.removeAttribute("d");
      if (block === null) return;
      const edge = stretch.lowerEdge(block), [first] = stretch.span(block), size = this.timeline.size[block];
      this.hit.setAttribute("d", steps(edge.map((lower) => lower + size), first, y, false) + steps(edge, first, y, true) + "Z");
    }
    clear() {
      this.cross.hidden = true;
      this.hit.removeAttribute("d");
    }
  }

  const start = () => {
    const source = document.getElementById("timelines");
    if (!source) return;
    const { top, timelines } = JSON.parse(source.textContent), section = document.getElementById("timeline");
    const legend = [...section.querySelectorAll(".legend li")], spoken = section.querySelector(".spoken");
    const titles = legend.map((item) => item.childNodes[1].textContent);
    const atPeak = legend.map((item) => item.lastChild.textContent);
    const y = (size) => Math.round((1 - size / top) * HEIGHT * 10) / 10;
    const views = [...section.querySelectorAll("figure.timeline")].map((figure, i) => {
      const view = new View(figure, new Timeline(timelines[i], titles.length), y);
      view.top = top;
      return view;
    });
    const events = Math.max(...views.map((view) => view.timeline.events));
    const label = div("label", document.body);
    label.hidden = true;
    label.setAttribute("aria-hidden", "true");

    let first = 0, last = events;
    const tools = section.querySelector(".tools"), told = section.querySelector(".stretch");
    const look = (from, to) => {
      const length = clamp(Math.round(to - from), Math.min(FEWEST, events), events);
      first = clamp(Math.round(from), 0, events - length);
      last = first + length;
      for (const view of views) view.draw(Math.min(first, view.timeline.events), last);
      const whole = length === events;
      told.textContent = whole ? "" : `events ${count(first)} to ${count(last)} of ${count(events)}`;
      for (const button of tools.querySelectorAll("button")) {
        button.disabled = button.dataset.zoom === "in" ? length <= FEWEST
          : button.dataset.zoom !== "peak" && whole;
      }
      silence();
    };
    const zoom = (factor, at) => look(at - (at - first) * factor, at + (last - at) * factor);
    const shift = (share) => look(first + (last - first) * share, last + (last - first) * share);
    const toPeak = () => {
      const at = views[views.length - 1].timeline.peak, half = Math.max(FEWEST, events / 200) / 2;
      look(at - half, at + half);
    };
    const actions = {
      in: () => zoom(0.4, (first + last) / 2), out: () => zoom(2.5, (first + last) / 2),
      left: () => shift(-0.5), right: () => shift(0.5), peak: toPeak, all: () => look(0, events),
    };
    tools.addEventListener("click", (event) => {
      const action = event.target.dataset.zoom;
      if (action) actions[action]();
      if (action) spoken.textContent = told.textContent || "the whole step";
    });

    const silence = () => {
      for (const view of views) view.clear();
      label.hidden = true;
      legend.forEach((item, i) => {
        item.lastChild.textContent = atPeak[i];
        item.classList.remove("on");
      });
    };
    // Tells what is at a column of a view beside the point of the window where the eye is, (x, height) in pixels.
    const tell = (view, column, block, x, height) => {
      const { timeline, stretch } = view, position = stretch.positions[column];
      for (const other of views) other.clear();
      view.mark(column, block);
      legend.forEach((item, component) => {
        item.lastChild.textContent = bytes(stretch.sums[component][column]);
        item.classList.toggle("on", block !== null && timeline.component[block] === component);
      });
      const phase = timeline.phaseAt(position);
      const rows = [];
      if (block === null) {
        rows.push(bytes(timeline.live[position]), `alive after event ${count(position)}` + (phase && `, ${phase}`));
      } else {
        const about = timeline.describe(block);
        rows.push(about.name, `${titles[about.component]}, ${bytes(about.size)}${about.size < 1024 ? "" : ` (${count(about.size)} bytes)`}`);
        if (about.place) rows.push(about.place);
        rows.push(about.life);
      }
      label.replaceChildren(...rows.map((text, i) => {
        const row = document.createElement(i === 0 ? "b" : "span");
        row.textContent = text;
        return row;
      }));
      label.hidden = false;
      const box = label.getBoundingClientRect(), gap = 14;
      const left = x + gap + box.width > document.documentElement.clientWidth - 4 ? x - gap - box.width : x + gap;
      label.style.left = clamp(left, 4, Math.max(4, document.documentElement.clientWidth - box.width - 4)) + "px";
      label.style.top = clamp(height - box.height - gap, 4, Math.max(4, window.innerHeight - box.height - 4)) + "px";
      return rows.join(", ");
    };

    for (const view of views) {
      const { area } = view;
      let column = 0, chosen = -1, drag = null;  // for the keyboard: the layer that is told, -1 for the sum
      const shareOf = (event) => {
        const box = area.getBoundingClientRect();
        return clamp((event.clientX - box.left) / box.width, 0, 1);
      };
      const eventAt = (share) => first + share * (last - first);
      const point = (event) => {
        const box = area.getBoundingClientRect(), { stretch } = view;
        const size = (1 - (event.clientY - box.top) / box.height) * top;
        column = Math.min(Math.floor(shareOf(event) * stretch.columns), stretch.columns - 1);
        const layers = view.timeline.layers(stretch.positions[column]);
        chosen = layers.findIndex(([level, block]) => level <= size && size < level + view.timeline.size[block]);
        tell(view, column, chosen < 0 ? null : layers[chosen][1], event.clientX, event.clientY);
      };
      area.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        if (event.pointerType === "mouse") drag = shareOf(event);
        point(event);
      });
      area.addEventListener("pointermove", (event) => {
        if (drag === null) return point(event);
        const [a, b] = [drag, shareOf(event)].sort((left, right) => left - right);
        view.band.hidden = b - a < 0.01;
        if (!view.band.hidden && !area.hasPointerCapture(event.pointerId)) area.setPointerCapture(event.pointerId);
        view.band.style.left = a * 100 + "%";
        view.band.style.width = (b - a) * 100 + "%";
        label.hidden = true;
      });
      area.addEventListener("pointerup", (event) => {
        const from = drag, to = shareOf(event);
        drag = null;
        if (view.band.hidden) return;
        view.band.hidden = true;
        look(...[eventAt(from), eventAt(to)].sort((a, b) => a - b));
      });
      area.addEventListener("pointercancel", () => { drag = null; view.band.hidden = true; });
      area.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse" && drag === null) silence(); });
      area.addEventListener("blur", silence);
      // A wheel over a picture that was not clicked scrolls the page, as anywhere.
      area.addEventListener("wheel", (event) => {
        if (document.activeElement !== area && !event.ctrlKey) return;
        event.preventDefault();
        zoom(event.deltaY < 0 ? 0.7 : 1 / 0.7, eventAt(shareOf(event)));
      }, { passive: false });
      area.addEventListener("keydown", (event) => {
        const { timeline } = view, far = event.shiftKey ? Math.ceil(view.stretch.columns / 40) : 1;
        const move = { ArrowLeft: [-far, 0], ArrowRight: [far, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
        const key = { "+": "in", "=": "in", "-": "out", "0": "all", p: "peak" }[event.key];
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.key === "Escape") silence();
        if (!move && !key) return;
        event.preventDefault();
        const at = view.stretch.positions[column];
        const [sideways, upwards] = move || [0, 0], next = column + sideways;
        if (key === "in" || key === "out") zoom(key === "in" ? 0.4 : 2.5, at);
        else if (key) actions[key]();
        else if (next < 0 || next >= view.stretch.columns) shift(Math.sign(sideways) * 0.5);
        column = view.stretch.columnOf(key === "peak" ? timeline.peak : at) + sideways;
        column = clamp(column, 0, view.stretch.columns - 1);
        const layers = timeline.layers(view.stretch.positions[column]);
        chosen = clamp(chosen + upwards, -1, layers.length - 1);
        const box = area.getBoundingClientRect(), block = chosen < 0 ? null : layers[chosen][1];
        const level = chosen < 0 ? timeline.live[view.stretch.positions[column]] : layers[chosen][0] + timeline.size[block] / 2;
        spoken.textContent = tell(view, column, block, box.left + (column + 0.5) / view.stretch.columns * box.width,
                                  box.top + (1 - level / top) * box.height);
      });
    }
    tools.hidden = false;
    section.querySelector(".hint").hidden = false;
    look(0, events);
    let resized = 0;
    addEventListener("resize", () => {
      cancelAnimationFrame(resized);
      resized = requestAnimationFrame(() => look(first, last));
    });
  };
  start();
})();
