"""`Streams` on Kafka. Only this folder knows aiokafka.

engine ── group ──► lane ◄── prefix (stateless), transactional (stateful: store, restore)
   │        │          └── intake, window: what came, what is done, what may be committed
   │        ├── pulse, watchdog: is this process still a member, is its client still reading
   │        └── identity: is it the only one with its name
   ├── outlet, delivery: messages out      ├── table      ├── offsets      ├── topics, janitor
   ├── client: clients that open and close within a bound; errors: theirs into ours
   └── chatter: its lines into few

What bites in aiokafka, and what holds against it here:

    one assignor only, and range: others do not give partition p of two topics to one member   engine._member
    a rebalance takes everything and restarts from what is committed                           group.revoked
    what a listener raises is swallowed                                                        group._Listener
    heartbeats stand still while a listener is told of its partitions                          group.assigned
    `stop` does not call the listener                                                          group.stop
    the rebalance timeout is the session timeout, offsets reset to the latest, acks are 1,
        offsets are committed by themselves                                                    engine._member, client
    a cancelled `getmany` loses records, and it blocks through a rebalance                     group._pump
    a deserialiser that raises loops for ever                                                  lanes hand out bytes
    one produce request has no cap                                                             delivery.Gate
    `commit_transaction` does not look at failed sends                                         delivery.deliver
    offsets in a transaction carry no group generation                                         transactional ids
    committed offsets right after a transaction are stale                                      transactional.open
    a coordinator that is loading looks like a group that never committed                      offsets.committed
    `position` passes markers, the last record + 1 does not                                    lane._next_offset
    creating topics returns codes, and new topics do not answer for a while                    topics
    asking for a topic may create it, or wait 40 s for it                                      engine, Cluster.at
    it stalls silently                                                                         watchdog
    a static member that is thrown out throws out who did it; and it never leaves             identity
    the time of the last heartbeat is nowhere to be read                                       pulse.Pulse.watch
    an outage is some ten lines a second                                                       chatter
    flushing to a broker that is gone never ends                                               client.closed
"""
