"""The report as one HTML page that needs no other file and no network.

Pictures are SVG made here rather than by a charting library: plotly.js alone adds 4.6 MB to every page and half a second to opening it,
while a page of 16 IPUs made here is a few hundred kilobytes, prints, follows the reader's light or dark setting by style sheet alone, and
its figures can be tested as text.
"""

from softipu.report.html.page import plan_page

__all__ = ["plan_page"]
