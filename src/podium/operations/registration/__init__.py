"""The registration service: messages of a bus become runs of the registration contract, heartbeats and ticks.

    place         the scope of the events: environment, namespace, tenant; and their topics
    consuming     one topic: receive, handle, commit; `starting`, `heartbeats` and `ticks` handle
    bus_time      the clock of the nodes: never behind that of the bus
    refusing      messages that can never be used: dead letters and alerts
    runs          where runs are created and driven
    continuing    runs that failed because a service was unavailable
    reconciling   both catalogs compared with the projection; `open_runs` says which nodes are left alone
    status        what the serving process knows, for `podium registration status`
    serving       all of it together, until stopped

A message is committed only after its effects are durable. So if anything is killed in between, the message is
delivered again, and changes nothing twice.
"""
