"""The host program: runs on the hypervisor as root, standard library only, Python 3.9+. States facts, executes steps, decides nothing."""
