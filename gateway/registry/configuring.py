"""Configurations and modes: of all subjects, of a context, of a subject."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request

from gateway.access.needs import Need, needs
from gateway.registry.asked import registry_of, subject_asked
from gateway.registry.bodies import CONFIG_BODY, MODE_BODY
from gateway.registry.route import Query, RegistryRoute, body_of
from gateway.registry_problem import PREFIX
from log_format.schemas.changes import DeleteConfig, DeleteMode, PutConfig, PutMode
from log_format.schemas.compatibility.incompatibility import Level
from log_format.schemas.refusals import RegistryCode, RegistryRefused
from log_format.schemas.row import ConfigRow, ModeRow
from log_format.schemas.state import ALL_SUBJECTS

router = APIRouter(route_class=RegistryRoute, include_in_schema=False)

MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
_CONFIG: Final = PREFIX + "/config"
_MODE: Final = PREFIX + "/mode"


@router.get(_CONFIG)
@needs()
async def get_global_config(request: Request) -> Any:
    """Return the configuration that holds for all subjects without their own."""
    return _config((await registry_of(request).state()).config(ALL_SUBJECTS))


@router.put(_CONFIG)
@needs(Need("Alter", "cluster"))
async def put_global_config(request: Request) -> Any:
    """Set the configuration of all subjects without their own."""
    return await _put_config(request, ALL_SUBJECTS)


@router.delete(_CONFIG)
@needs(Need("Alter", "cluster"))
async def delete_global_config(request: Request) -> Any:
    """Remove the configuration of all subjects: the default holds again. Return the one before."""
    state = await registry_of(request).state()
    before = state.config(ALL_SUBJECTS)
    if ALL_SUBJECTS in state.configs:
        await registry_of(request).decide(DeleteConfig(subject=ALL_SUBJECTS))
    return _config(before)


@router.get(_CONFIG + "/{subject}")
@needs(Need("Describe", "subject"))
async def get_config(request: Request) -> Any:
    """Return the configuration of the subject; with ``defaultToGlobal`` the one in force."""
    subject, query = subject_asked(request, "Describe"), Query(request)
    if query.flag("defaultToGlobal"):
        return _config((await registry_of(request).state()).config(subject))
    found = (await registry_of(request).state()).configs.get(subject)
    if found is None:
        text = f"Subject '{subject}' does not have subject-level compatibility configured"
        raise RegistryRefused(RegistryCode.NO_SUBJECT_CONFIG, text)
    return _config(found)


@router.put(_CONFIG + "/{subject}")
@needs(Need("Alter", "subject"))
async def put_config(request: Request) -> Any:
    """Set the configuration of the subject; what the body does not name stays."""
    return await _put_config(request, subject_asked(request, "Alter"))


@router.delete(_CONFIG + "/{subject}")
@needs(Need("Alter", "subject"))
async def delete_config(request: Request) -> Any:
    """Remove the configuration of the subject. Return it."""
    decided = await registry_of(request).decide(DeleteConfig(subject=subject_asked(request, "Alter")))
    assert isinstance(decided.setting, ConfigRow)
    return _config(decided.setting)


@router.get(_MODE)
@needs()
async def get_global_mode(request: Request) -> Any:
    """Return the mode of all subjects without their own."""
    return {"mode": (await registry_of(request).state()).mode(ALL_SUBJECTS)}


@router.put(_MODE)
@needs(Need("Alter", "cluster"))
async def put_global_mode(request: Request) -> Any:
    """Set the mode of all subjects without their own."""
    return await _put_mode(request, ALL_SUBJECTS)


@router.delete(_MODE)
@needs(Need("Alter", "cluster"))
async def delete_global_mode(request: Request) -> Any:
    """Remove the mode of all subjects: the default holds again. Return the one before."""
    state = await registry_of(request).state()
    before = state.mode(ALL_SUBJECTS)
    if ALL_SUBJECTS in state.modes:
        await registry_of(request).decide(DeleteMode(subject=ALL_SUBJECTS))
    return {"mode": before}


@router.get(_MODE + "/{subject}")
@needs(Need("Describe", "subject"))
async def get_mode(request: Request) -> Any:
    """Return the mode of the subject; with ``defaultToGlobal`` the one in force."""
    subject, query = subject_asked(request, "Describe"), Query(request)

    state = await registry_of(request).state()
    if query.flag("defaultToGlobal"):
        return {"mode": state.mode(subject)}
    found = state.modes.get(subject)
    if found is None:
        text = f"Subject '{subject}' does not have subject-level mode configured"
        raise RegistryRefused(RegistryCode.NO_SUBJECT_MODE, text)
    return {"mode": found.mode}


@router.put(_MODE + "/{subject}")
@needs(Need("Alter", "subject"))
async def put_mode(request: Request) -> Any:
    """Set the mode of the subject. IMPORT needs ``force=true`` if there are schemas."""
    return await _put_mode(request, subject_asked(request, "Alter"))


@router.delete(_MODE + "/{subject}")
@needs(Need("Alter", "subject"))
async def delete_mode(request: Request) -> Any:
    """Remove the mode of the subject. Return it."""
    decided = await registry_of(request).decide(DeleteMode(subject=subject_asked(request, "Alter")))
    assert isinstance(decided.setting, ModeRow)
    return {"mode": decided.setting.mode}


async def _put_config(request: Request, subject: str) -> Any:
    body = await body_of(request, CONFIG_BODY)
    level = body.compatibility or body.compatibility_level
    if level is not None and level.upper() not in Level.__members__:
        text = "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive,"
        raise RegistryRefused(RegistryCode.INVALID_COMPATIBILITY, f"{text} forward_transitive, and full_transitive")
    row = ConfigRow(
        subject=subject,
        compatibility=None if level is None else level.upper(),
        normalize=body.normalize,
        compatibility_group=body.compatibility_group,
    )
    await registry_of(request).decide(PutConfig(row=row))
    return _config(row, name="compatibility")


def _config(row: ConfigRow, *, name: str = "compatibilityLevel") -> dict[str, Any]:
    members = {name: row.compatibility, "normalize": row.normalize, "compatibilityGroup": row.compatibility_group}
    return {name: value for name, value in members.items() if value is not None and value is not False}


async def _put_mode(request: Request, subject: str) -> Any:
    body = await body_of(request, MODE_BODY)
    mode = (body.mode or "").upper()
    if mode not in MODES:
        raise RegistryRefused(RegistryCode.INVALID_MODE, f"Invalid mode. Valid values are {', '.join(MODES)}")
    await registry_of(request).decide(
        PutMode(row=ModeRow(subject=subject, mode=mode), force=Query(request).flag("force"))
    )
    return {"mode": mode}
