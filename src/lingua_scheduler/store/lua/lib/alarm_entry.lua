-- What is known of an alarm, "since seen acknowledged silenced_until forgotten by", as a table; nil for what is none.
local function alarm_entry(text)
  local since, seen, acknowledged, silenced, forgotten, by =
    string.match(text or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) ?(.*)$')
  if not since then return nil end
  return {
    since = tonumber(since), seen = tonumber(seen), acknowledged = tonumber(acknowledged),
    silenced = tonumber(silenced), forgotten = tonumber(forgotten), by = by,
  }
end

local function alarm_text(entry)
  return string.format('%.0f %.0f %.0f %.0f %.0f %s',
    entry.since, entry.seen, entry.acknowledged, entry.silenced, entry.forgotten, entry.by)
end
