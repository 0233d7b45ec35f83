"""Rules of NVIDIA's driver: admission, placement, profiles and types, schedulers, module options, refusals."""
