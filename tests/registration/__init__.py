"""The registration service as others see it: topics of Kafka, services of Consul, tables of PostgreSQL, processes.

simulated   nodes that introduce themselves, acknowledge, send heartbeats, fall silent and come back
traffic     their messages, each sent several times in any order; and everything that is published
picture     what Consul, the tables and the topics have
checker     compares a picture with what the nodes were told to be
world       the three servers, and processes of `podium registration serve`
chaos       all of it, while servers and processes are killed
"""
