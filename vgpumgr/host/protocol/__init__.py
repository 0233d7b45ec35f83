"""The protocol between the controller and the host program: the one package that both sides import.

The host program prints one greeting line, MAGIC followed by a JSON object (Hello); then each request is one JSON line
on its stdin and each answer one JSON line on its stdout, in order. A request is {"id": n, "do": VERB, …}; an answer is
{"id": n, "ok": {…}} or {"id": n, "err": {"kind": KIND, "message": text, …}}.

    do        fields                          ok
    observe   wait_s, libvirt                 Observed (under the shared lock, which is released at once)
    lock      by, wait_s, libvirt             Locked (under the exclusive lock, which is kept)
    execute   step, deadline_s                Executed
    sample    wait_s, since                   SampleReport (as observe; since: {GPU's PCI address: us})
    ping                                      {}
    unlock    gpu_uuids (a list), libvirt     Observed, of these GPUs only; then the lock is released
    libvirt   libvirt                         LibvirtFact
    installed                                 Installed
    install   dispatcher (text), programs     Installed, afterwards
              (base64), pinned, restore
    uninstall                                 Installed, afterwards
    purge     check                           PurgeFact (without `check`, under the lock that `lock` took)
    symptoms                                  Symptoms
    capture   wait_s                          Capture (as observe)

`libvirt` is a LibvirtQuery, answered while the rest is read, or null. Changes in libvirt are steps of `execute`.

`gpu` is always a GPU's PCI address, and `gpu_uuid` its UUID. Every key of every object is always present; an unknown
value is null and has a row in Snapshot["unknown"] that says why.
Python 3.9: these files run on the hypervisor.
"""
