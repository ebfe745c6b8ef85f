"""Robots and runs to look at: a scene in the browser, a page to send, a picture.

Nothing here is loaded by `import nlink`. What is drawn is a `scene.Scene`, made once from a robot;
a browser (`server`, by viser), a page (`motion_page`, WebGL) and a picture (`pictures`, NumPy
alone) show the same one.
"""
