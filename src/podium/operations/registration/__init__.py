"""The registration service: messages of a bus become runs of the registration contract, heartbeats and ticks.

    place         whose events these are: environment, namespace, tenant; and their topics
    consuming     one topic: receive, handle, commit; `starting`, `heartbeats` and `ticks` handle
    refusing      messages that can never be used: dead letters and alerts
    runs          where runs are created and driven
    continuing    runs that failed because a service was away
    reconciling   both catalogs compared with the projection
    status        what the serving process knows, for `podium registration status`
    serving       all of it together, until stopped

A message is committed only after what follows from it is durable. So whatever is killed in between, the message comes
again, and changes nothing twice.
"""
