"""A mesh of an older release is upgraded to this one under load, refused a downgrade, backed up and restored.

| step | what must hold |
|---|---|
| `older` | the older release runs on a configuration that it has written itself; everything flows |
| `refused` | this release refuses the older checkpoint, and says what to do |
| `upgraded` | that is done; the load goes on, and its sessions come back by themselves |
| `downgrade` | the older release refuses the newer checkpoint, and says what to do; nothing is harmed by the attempt |
| `old_checkpoint` | with a checkpoint of before, peers hear nothing twice; events may stand twice under equal ids |
| `restored` | from configuration, keys and topics in another folder: what was accepted is there, and goes on |
| `restored_empty` | from configuration and keys alone: devices are believed, and everything flows |

After each step what was acknowledged stands in `events`, under one id, and `meshgate audit` balances. A packet that the
older release has accepted is sent again after each: it must stay one event.

    python -m tests.upgrade                      from the release that RELEASE names; takes some minutes
    python -m tests.upgrade --older COMMIT
"""
