"""The console in Chromium. A package, so that its tests share one browser and no other test meets it."""
