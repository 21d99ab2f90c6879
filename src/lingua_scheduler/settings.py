"""All settings, section by section; `setting_sections/` declares each with its type, limits, default and description.

Declarations alone: `configuration/` loads and checks them."""

import msgspec

from lingua_scheduler.setting_sections.access import AuditSettings, AuthSettings
from lingua_scheduler.setting_sections.callers import CallsSettings, RequestsSettings
from lingua_scheduler.setting_sections.instances import InboxSettings, InstancesSettings, PrivacySettings
from lingua_scheduler.setting_sections.jobs import DispatchSettings, JobSettings
from lingua_scheduler.setting_sections.nodes import CatalogueSettings, NodesSettings
from lingua_scheduler.setting_sections.pools import PoolsSettings, SelectionSettings
from lingua_scheduler.setting_sections.redis import RedisSettings
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_scheduler.setting_sections.server import ServerSettings
from lingua_scheduler.setting_sections.sessions import DeliverySettings, SessionsSettings
from lingua_scheduler.setting_sections.watching import LogsSettings, ScalingSettings, WatchSettings


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    server: ServerSettings = ServerSettings()
    redis: RedisSettings = RedisSettings()
    nodes: NodesSettings = NodesSettings()
    pools: PoolsSettings = PoolsSettings()
    selection: SelectionSettings = SelectionSettings()
    dispatch: DispatchSettings = DispatchSettings()
    job: JobSettings = JobSettings()
    sessions: SessionsSettings = SessionsSettings()
    rooms: RoomsSettings = RoomsSettings()
    delivery: DeliverySettings = DeliverySettings()
    instances: InstancesSettings = InstancesSettings()
    inbox: InboxSettings = InboxSettings()
    privacy: PrivacySettings = PrivacySettings()
    auth: AuthSettings = AuthSettings()
    audit: AuditSettings = AuditSettings()
    requests: RequestsSettings = RequestsSettings()
    calls: CallsSettings = CallsSettings()
    watch: WatchSettings = WatchSettings()
    scaling: ScalingSettings = ScalingSettings()
    catalogue: CatalogueSettings = CatalogueSettings()
    logs: LogsSettings = LogsSettings()
