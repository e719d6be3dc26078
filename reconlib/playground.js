(function () {
  "use strict";
  var STEPS = 1500, PER_FRAME = 6, RATE = 0.03, SHARPNESS = 30;

  function draw(parent, name, attributes) {
    var node = document.createElementNS(parent.namespaceURI, name);
    Object.keys(attributes).forEach(function (key) { node.setAttribute(key, attributes[key]); });
    parent.appendChild(node);
    return node;
  }

  // Solves (K + ridge I) l = c for a symmetric K by elimination.
  function solve(K, c, ridge) {
    var m = c.length, i, j, k, mean = 0;
    for (i = 0; i < m; i++) { mean += K[i][i] / m; }
    var A = K.map(function (row, r) { var copy = row.slice(); copy[r] += ridge * mean + 1e-300; copy.push(c[r]); return copy; });
    for (i = 0; i < m; i++) {
      for (j = i + 1; j < m; j++) {
        var f = A[j][i] / A[i][i];
        for (k = i; k <= m; k++) { A[j][k] -= f * A[i][k]; }
      }
    }
    var l = new Array(m);
    for (i = m - 1; i >= 0; i--) {
      l[i] = A[i][m];
      for (k = i + 1; k < m; k++) { l[i] -= A[i][k] * l[k]; }
      l[i] /= A[i][i];
    }
    return l;
  }

  // The mismatch at candidates X with the best multipliers, and its gradient.
  function equation(net, X, ridge) {
    var m = X.length, h = net.b.length, scale = 1 / Math.sqrt(h), i, j, k;
    var F = X.map(function (x) {
      return net.b.map(function (b, k) { return scale * Math.max(0, net.w[k][0] * x[0] + net.w[k][1] * x[1] + b); });
    });
    function dot(a, b) { var s = 0; for (var k = 0; k < h; k++) { s += a[k] * b[k]; } return s; }
    var K = F.map(function (a) { return F.map(function (b) { return dot(a, b); }); });
    var l = solve(K, F.map(function (a) { return dot(a, net.v); }), ridge);
    var r = net.v.slice();
    for (i = 0; i < m; i++) { for (k = 0; k < h; k++) { r[k] -= l[i] * F[i][k]; } }
    var size = dot(net.v, net.v);
    var gradient = X.map(function (x, i) {
      var g = [0, 0];
      for (k = 0; k < h; k++) {
        var z = net.w[k][0] * x[0] + net.w[k][1] * x[1] + net.b[k];
        var pull = -2 * l[i] * r[k] * scale / (1 + Math.exp(-SHARPNESS * z)) / size;
        g[0] += pull * net.w[k][0];
        g[1] += pull * net.w[k][1];
      }
      return g;
    });
    return { mismatch: Math.sqrt(dot(r, r) / size), gradient: gradient, multipliers: l };
  }

  document.querySelectorAll(".recon-plane:not([data-live])").forEach(function (root) {
    root.setAttribute("data-live", "");
    var data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    var svg = root.querySelector("svg"), select = root.querySelector("select");
    var output = root.querySelector("output"), bar = root.querySelector(".recon-bar span");
    var pull = root.querySelector('[data-do="pull"]');
    var X = [], dots = [], running = null, state = null, held = -1;
    select.value = String(data.networks.length - 1);

    data.points.forEach(function (p, i) {
      var group = draw(svg, "g", { "class": "truth" });
      draw(group, "circle", { "class": "point", cx: p[0], cy: p[1], r: 0.07 });
      draw(group, "path", { "class": "minus", d: "M" + (p[0] - 0.035) + " " + p[1] + "h0.07" });
      if (data.labels[i] > 0) { draw(group, "path", { "class": "plus", d: "M" + p[0] + " " + (p[1] - 0.035) + "v0.07" }); }
    });
    for (var c = 0; c < data.candidates; c++) { dots.push(draw(svg, "circle", { "class": "candidate", r: 0.04 })); }

    function network() { return data.networks[Number(select.value)]; }
    function show() {
      var found = equation(network(), X, 1e-9);
      var largest = Math.max.apply(null, found.multipliers.map(Math.abs)) || 1;
      X.forEach(function (x, i) {
        dots[i].setAttribute("cx", x[0]);
        dots[i].setAttribute("cy", x[1]);
        // A candidate without a multiplier explains nothing: it fades.
        dots[i].setAttribute("opacity", 0.25 + 0.75 * Math.min(1, 4 * Math.abs(found.multipliers[i]) / largest));
      });
      output.textContent = (100 * found.mismatch).toPrecision(2) + " %";
      bar.style.width = 100 * Math.min(1, found.mismatch) + "%";
      root.dataset.mismatch = found.mismatch;
    }
    function stop() {
      if (running !== null) { cancelAnimationFrame(running); }
      running = null;
      pull.textContent = "Let the equation pull";
    }
    function scatter() {
      stop();
      X = dots.map(function () { return [2.2 * Math.random() - 1.1, 2.2 * Math.random() - 1.1]; });
      show();
    }
    function frame() {
      for (var s = 0; s < PER_FRAME && state.t < STEPS; s++) {
        state.t += 1;
        // The ridge keeps multipliers tame while candidates are still far away.
        var found = equation(network(), X, Math.pow(10, -2 - 4 * state.t / STEPS));
        var rate = RATE * 0.5 * (1 + Math.cos(Math.PI * state.t / STEPS)) + 1e-4;
        X.forEach(function (x, i) {
          for (var d = 0; d < 2; d++) {
            var g = found.gradient[i][d];
            state.first[i][d] = 0.9 * state.first[i][d] + 0.1 * g;
            state.second[i][d] = 0.999 * state.second[i][d] + 0.001 * g * g;
            var up = state.first[i][d] / (1 - Math.pow(0.9, state.t));
            var down = Math.sqrt(state.second[i][d] / (1 - Math.pow(0.999, state.t))) + 1e-12;
            if (i !== held) { x[d] = Math.max(-1.35, Math.min(1.35, x[d] - rate * up / down)); }
          }
        });
      }
      show();
      if (state.t < STEPS) { running = requestAnimationFrame(frame); } else { stop(); root.dataset.ended = state.t; }
    }
    pull.addEventListener("click", function () {
      if (running !== null) { stop(); return; }
      function zeros() { return X.map(function () { return [0, 0]; }); }
      state = { t: 0, first: zeros(), second: zeros() };
      pull.textContent = "Stop";
      running = requestAnimationFrame(frame);
    });
    root.querySelector('[data-do="scatter"]').addEventListener("click", scatter);
    root.querySelector('input[type="checkbox"]').addEventListener("change", function (event) {
      root.classList.toggle("shown", event.target.checked);
    });
    select.addEventListener("change", function () { stop(); show(); });

    function place(event) {
      var box = svg.getBoundingClientRect();
      return [-1.4 + 2.8 * (event.clientX - box.left) / box.width, -1.4 + 2.8 * (event.clientY - box.top) / box.height];
    }
    svg.addEventListener("pointerdown", function (event) {
      var p = place(event), least = 0.02;
      X.forEach(function (x, i) {
        var d = Math.pow(x[0] - p[0], 2) + Math.pow(x[1] - p[1], 2);
        if (d < least) { least = d; held = i; }
      });
      if (held >= 0) { svg.setPointerCapture(event.pointerId); }
    });
    svg.addEventListener("pointermove", function (event) {
      if (held < 0) { return; }
      var p = place(event);
      X[held] = [Math.max(-1.35, Math.min(1.35, p[0])), Math.max(-1.35, Math.min(1.35, p[1]))];
      if (running === null) { show(); }
    });
    ["pointerup", "pointercancel"].forEach(function (name) { svg.addEventListener(name, function () { held = -1; }); });
    scatter();
  });
})();
