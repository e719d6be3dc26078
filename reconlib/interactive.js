(function () {
  "use strict";
  // A page may hold several of these scripts: each takes up what is not alive yet.
  function each(kind, enliven) {
    document.querySelectorAll(".recon-" + kind + ":not([data-live])").forEach(function (root) {
      root.setAttribute("data-live", "");
      enliven(root);
    });
  }

  each("slider", function (root) {
    var input = root.querySelector("input");
    var pairs = root.querySelectorAll(".recon-pair");
    function all() {
      pairs.forEach(function (pair) { pair.style.removeProperty("--cut"); });
      root.style.setProperty("--cut", input.value + "%");
    }
    input.addEventListener("input", all);
    pairs.forEach(function (pair) {
      pair.addEventListener("pointermove", function (event) {
        var box = pair.getBoundingClientRect();
        var share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
        pair.style.setProperty("--cut", 100 * share + "%");
      });
    });
    all();
  });

  each("scatter", function (root) {
    var svg = root.querySelector("svg");
    var points = Array.prototype.slice.call(svg.querySelectorAll("circle"));
    if (!points.length) { return; }
    var range = root.querySelector("input");
    var output = root.querySelector("output");
    var columns = Number(root.dataset.columns);
    var rows = Math.ceil(points.length / columns);
    var at = points.map(function (p) { return [p.cx.baseVal.value, p.cy.baseVal.value]; });
    var current = -1;
    function part(place, count) { return count > 1 ? 100 * place / (count - 1) + "%" : "0%"; }
    function show(i) {
      if (i === current) { return; }
      if (current >= 0) { points[current].classList.remove("on"); points[current].setAttribute("tabindex", "-1"); }
      current = i;
      points[i].classList.add("on");
      points[i].setAttribute("tabindex", "0");
      points[i].parentNode.appendChild(points[i]);
      var row = Math.floor(i / columns), column = i % columns;
      root.style.setProperty("--x", part(2 * column, 2 * columns));
      root.style.setProperty("--x2", part(2 * column + 1, 2 * columns));
      root.style.setProperty("--y", part(row, rows));
      output.textContent = points[i].querySelector("title").textContent;
      range.value = i;
    }
    function nearest(event) {
      var box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
      var x = (event.clientX - box.left) * view.width / box.width;
      var y = (event.clientY - box.top) * view.height / box.height;
      var best = 0, least = Infinity;
      at.forEach(function (p, i) {
        var d = (p[0] - x) * (p[0] - x) + (p[1] - y) * (p[1] - y);
        if (d < least) { least = d; best = i; }
      });
      show(best);
    }
    svg.addEventListener("pointermove", nearest);
    svg.addEventListener("pointerdown", nearest);
    points.forEach(function (point, i) { point.addEventListener("focus", function () { show(i); }); });
    svg.addEventListener("keydown", function (event) {
      var move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!move) { return; }
      event.preventDefault();
      var next = Math.min(points.length - 1, Math.max(0, current + move));
      show(next);
      points[next].focus();
    });
    range.addEventListener("input", function () { show(Number(range.value)); });
    show(0);
  });

  each("film", function (root) {
    var button = root.querySelector("button");
    var range = root.querySelector("input");
    var output = root.querySelector("output");
    var words = root.dataset.words.split("|");
    var last = words.length - 1;
    var timer = null;
    function show(t) {
      root.style.setProperty("--at", last ? t / last : 0);
      output.textContent = words[t];
      range.value = t;
    }
    function stop() {
      clearInterval(timer);
      timer = null;
      button.textContent = "Play";
    }
    button.addEventListener("click", function () {
      if (timer !== null) { stop(); return; }
      button.textContent = "Pause";
      if (Number(range.value) === last) { show(0); }
      timer = setInterval(function () {
        var next = Number(range.value) + 1;
        show(next);
        if (next >= last) { stop(); }
      }, 90);
    });
    range.addEventListener("input", function () { stop(); show(Number(range.value)); });
    show(last);
  });
})();
