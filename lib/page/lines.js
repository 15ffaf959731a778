// Figures with lines: the values nearest to the pointer or under the keyboard's cursor, and the other axis.
(() => {
  const nearest = (points, x) =>
    points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
  const start = (figure) => {
    const series = JSON.parse(figure.querySelector("script").textContent).filter((one) => one.points.length > 0);
    const readout = figure.querySelector(".readout"), button = figure.querySelector("button.axis");
    const points = series.flatMap((one) => one.points);
    const crosses = [...figure.querySelectorAll(".area")].map((area) => {
      const cross = document.createElement("div");
      cross.className = "cross";
      cross.hidden = true;
      area.append(cross);
      return cross;
    });
    const clear = () => {
      for (const cross of crosses) cross.hidden = true;
      readout.textContent = "";
    };
    const show = (x) => {
      const [at, position] = nearest(points, x);
      for (const cross of crosses) {
        cross.hidden = false;
        cross.style.left = at * 100 + "%";
      }
      // Series need not have points at the same places: evaluations are rarer than logged steps.
      const values = series.map(({ name, points: of }) => [name, nearest(of, at)])
        .filter(([, point]) => Math.abs(point[0] - at) < 0.01)
        .map(([name, point]) => (series.length > 1 ? name + " " : "") + point[2]);
      readout.textContent = [position, ...values].join(" · ");
      return at;
    };
    for (const area of figure.querySelectorAll(".area")) {
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
        const places = points.map((at) => at[0]).sort((a, b) => a - b);
        const next = event.key === "ArrowRight" ? places.find((at) => at > x) : places.findLast((at) => at < x);
        x = show(next === undefined ? x : next);
      });
    }
    if (!button) return;
    const logarithmic = figure.querySelector(".plot"), linear = figure.querySelector(".other");
    const scale = figure.querySelector(".scale");
    button.hidden = false;
    button.addEventListener("click", () => {
      const to_linear = linear.hidden;
      linear.hidden = !to_linear;
      logarithmic.hidden = to_linear;
      button.textContent = to_linear ? "show logarithmic" : "show linear";
      scale.textContent = to_linear ? "linear" : "logarithmic";
    });
  };
  document.querySelectorAll("figure.lines").forEach(start);
})();
