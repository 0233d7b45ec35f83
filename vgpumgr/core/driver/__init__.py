"""Rules of NVIDIA's driver: profiles and the catalogue of types, schedulers, module options, what a refusal means."""
