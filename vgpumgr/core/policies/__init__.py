"""Which of several GPUs takes a new vGPU. Each policy is one file; docs/plugins.md says how to write another."""
