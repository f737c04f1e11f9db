"use strict";
// Draws the charts: of the console's history (data-series) or of numbers in the page (data-chart).
(() => {
  const colors = ["#0b7a75", "#b35900", "#6f42c1", "#0a58ca", "#a61e4d", "#4d7c0f", "#c92a2a"];
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const short = (value) => {
    if (value === null || value === undefined) return "–";
    for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
      if (Math.abs(value) >= size) return `${+(value / size).toFixed(1)} ${unit}`;
    }
    return String(+value.toFixed(1));
  };

  const axis = (more) => ({
    stroke: style("--muted"), grid: { stroke: style("--line"), width: 1 },
    ticks: { stroke: style("--line"), width: 1 }, font: "12px system-ui, sans-serif", ...more,
  });

  const draw = (figure, times, labels, lines) => {
    const plot = figure.querySelector(".plot");
    plot.replaceChildren();
    if (times.length < 2) {
      plot.textContent = "Not enough samples yet.";
      plot.classList.add("empty");
      return;
    }
    plot.classList.remove("empty");
    const unit = figure.dataset.unit;
    const shown = (_, value) => (value === null || value === undefined ? "–" : short(value) + unit);
    const chart = new uPlot({
      width: plot.clientWidth, height: 180, tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
      cursor: { drag: { x: true, y: false } },
      scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.1 : 1] } },
      axes: [axis({}), axis({ size: 60, values: (_, values) => values.map(short) })],
      series: [{ label: "UTC" }, ...labels.map((label, at) => ({
        label, stroke: label === "missing" ? "#c92a2a" : colors[at % colors.length], width: 1.5,
        fill: labels.length === 1 ? colors[0] + "22" : undefined, value: shown, points: { show: false },
      }))],
    }, [times, ...lines], plot);
    new ResizeObserver(() => chart.setSize({ width: plot.clientWidth, height: 180 })).observe(plot);
  };

  const load = async (figure) => {
    if (figure.dataset.chart) {
      const found = JSON.parse(figure.dataset.chart);
      const kept = found.lines.map((line) => line.some((value) => value !== null));
      const keep = (_, at) => kept[at];
      draw(figure, found.times, found.labels.filter(keep), found.lines.filter(keep));
      return;
    }
    const query = new URLSearchParams(JSON.parse(figure.dataset.series).map((name) => ["series", name]));
    try {
      const reply = await fetch("/history?" + query);
      if (!reply.ok) return;
      const found = await reply.json();
      const labels = JSON.parse(figure.dataset.labels);
      const size = found.times.length + ":" + found.times.at(-1);
      if (figure.dataset.drawn === size) return;
      figure.dataset.drawn = size;
      draw(figure, found.times, labels, found.lines);
    } catch {
      // The console is gone; the next round tries again.
    }
  };

  const all = () => document.querySelectorAll("figure.chart").forEach(load);
  all();
  setInterval(() => document.querySelectorAll("figure.chart[data-series]").forEach(load), 15000);
})();
