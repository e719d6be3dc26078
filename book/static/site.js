// A formula wider than the screen can be scrolled by keys as well.
window.addEventListener("load", function () {
  if (!window.MathJax || !window.MathJax.startup) { return; }
  window.MathJax.startup.promise.then(function () {
    document.querySelectorAll('mjx-container[display="true"]').forEach(function (formula) {
      if (formula.scrollWidth > formula.clientWidth) { formula.setAttribute("tabindex", "0"); }
    });
  });
});
