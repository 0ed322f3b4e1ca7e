// Before the first paint, so that a chosen theme never flashes. A classic script: modules wait for the document.
{
  let theme = null;
  try { theme = localStorage.getItem("tidelog.theme"); } catch { /* storage is off: the system's theme */ }
  if (theme) document.documentElement.dataset.theme = theme;
}
