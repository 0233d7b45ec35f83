"""Rules of NVIDIA's driver: profiles and the catalogue of types, schedulers, module options, the meaning of refusals."""
