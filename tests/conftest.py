"""Fixtures that every folder of tests may use."""

from __future__ import annotations

from tests.lab_fixtures import lab_factory, mdev_vf_lab

__all__ = ["lab_factory", "mdev_vf_lab"]
