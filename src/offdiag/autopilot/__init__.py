"""``od.auto``: look at the data, hold out as the model will be judged, race the families, blend, fit on everything."""

from offdiag.autopilot.outcome import Autopilot as Autopilot
from offdiag.autopilot.outcome import Row as Row
from offdiag.autopilot.pilot import auto as auto
