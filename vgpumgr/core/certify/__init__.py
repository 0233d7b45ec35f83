"""What vgpumgr believes of NVIDIA's driver, asked on a host."""
