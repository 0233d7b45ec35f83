"""Rules of NVIDIA's driver: admission (the equal-size rule), profiles and the catalogue of types, schedulers, module options, the meaning of refusals."""
