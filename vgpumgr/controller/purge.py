"""host purge: free what is ours on a host, then remove the files that vgpumgr wrote there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.controller.engine import journaling
from vgpumgr.controller.engine.host_run import HostRun, Work
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import PurgeResult
from vgpumgr.core.model.installation import DISPATCHER
from vgpumgr.core.reconcile import purging, tasks
from vgpumgr.core.reconcile.purging import PurgePlan
from vgpumgr.core.step import WriteModprobe
from vgpumgr.errors import Outcome
from vgpumgr.store.journal_entry import Intent

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.controller.results import Consent
    from vgpumgr.errors import Success, VgpumgrError

_WHAT = "host purge"
_WORK = Work(what=_WHAT, todo=lambda view, _declared: purging.todo(view))


def purge(context: Context, host: str, consent: Consent[PurgePlan]) -> PurgeResult:
    """Purge the host of that name. A vGPU in use is in the result's errors, and nothing is changed then.

    Raises RequestError, Declined, HostError or ApplyError; the same command again goes on.
    """
    declaration = context.inventory.host(host)
    # One author for all its plans: what is planned under the lock is compared with what was agreed to.
    author = tasks.Author(by=context.by, at=context.now())
    with open_session(context, declaration) as session:
        return _Purging(session, consent, author).carry_out()


@dataclass(frozen=True, slots=True)
class _Purging:
    session: Session
    consent: Consent[PurgePlan]
    author: tasks.Author

    def carry_out(self) -> PurgeResult:
        run = self._run()
        run.look()
        plan = self._plan(run)
        if plan.refusals:
            return self._result(plan, Outcome.UNCHANGED, errors=plan.refusals)
        self.consent.show(plan)
        if not plan.changed:
            return self._result(plan, Outcome.UNCHANGED)
        if self.consent.check:
            return self._result(plan, Outcome.WOULD_CHANGE, files=plan.files)
        if not self.consent.given:
            self.consent.ask(plan)
        if plan.work.changed:
            outcome, errors = self._free(plan)
            if errors:
                return self._result(plan, outcome, errors=errors)
        return self._result(plan, Outcome.DONE, files=self._remove_files())

    def _plan(self, run: HostRun) -> PurgePlan:
        view, declaration = run.view, self.session.declaration
        files, boot = self.session.link.files(), purging.boot_file(view)
        return PurgePlan(
            work=run.plan(),
            files=purging.in_order(files, boot),
            boot=boot,
            left=tuple(purging.left(view, declaration, has_dispatcher=DISPATCHER in files)),
        )

    def _free(self, agreed: PurgePlan) -> tuple[Success, tuple[VgpumgrError, ...]]:
        """Free what is ours. Returns the outcome, and the errors of what could not be freed."""
        run = self._run()
        run.look(lock=True)
        now = self._plan(run)
        if now.refusals:  # a VM has been started meanwhile
            run.unlock()
            return Outcome.UNCHANGED, now.refusals
        run.go(agreed=agreed.work.takes_away)
        return Outcome.DONE, tuple(one.error for one in run.results if one.error is not None)

    def _remove_files(self) -> tuple[str, ...]:
        """Remove the files under the host's lock, and return them. The host refuses if its ledger is not empty now."""
        view = self.session.lock(_WHAT)
        host, link, boot = self.session.declaration.name, self.session.link, purging.boot_file(view)
        step = None if boot is None else WriteModprobe(host=host, path=boot.path, text=None, expect=boot.text)
        steps = () if step is None else (step.record(),)
        with journaling.recorded(
            self.session.context, Intent(verb="purge", why="requested", host=host, steps=steps)
        ) as line:
            if step is not None:
                link.execute(step)
            gone = purging.in_order(link.purge(), boot)
        self.session.unlock(view)
        line.end(None)
        return gone

    def _run(self) -> HostRun:
        return HostRun(self.session, _WORK, self.author)

    def _result(
        self,
        plan: PurgePlan,
        outcome: Success,
        *,
        files: tuple[str, ...] = (),
        errors: tuple[VgpumgrError, ...] = (),
    ) -> PurgeResult:
        return PurgeResult(
            plan=plan,
            files=files,
            outcome=outcome,
            findings=(*plan.work.findings, *journaling.findings(self.session.context)),
            errors=errors,
        )
