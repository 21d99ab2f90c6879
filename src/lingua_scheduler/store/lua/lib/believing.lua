-- What is remembered of a node counts again: slots believed, and when it comes back, its quarantine and last outcomes.
-- The reply is whether it comes back drained: an operator's drain lasts as long as the process (`boot_id`).
local function bring_back(node, past, is_back, boot_id, trust, sick, trouble)
  local was_believed, was_sick, was_trouble, was_drained = string.match(past, '^([^|]*)|([^|]*)|([^|]*)|?(.*)$')
  if not was_believed then return false end
  if string.match(was_believed, '^%d+ %d+ %d+$') then redis.call('HSETNX', trust, node, was_believed) end
  if is_back and tonumber(was_sick) then redis.call('ZADD', sick, 'NX', was_sick, node) end
  if is_back and was_trouble ~= '' then redis.call('HSETNX', trouble, node, was_trouble) end
  return is_back and boot_id ~= '' and was_drained == redis.sha1hex(boot_id)
end

-- A node that registers again may be mended, so the probe of a quarantined one comes sooner: `probe_ms` after its quarantine
-- began, times how often it was quarantined. A node that only restarts and fails is asked less and less often.
local function hasten_probe(node, probe_ms, sick, trouble)
  local ends_at = redis.call('ZSCORE', sick, node)
  local times, since = string.match(redis.call('HGET', trouble, node) or '', '^[ox]* (%d+) (%d+)$')
  if not ends_at or not times then return end
  redis.call('ZADD', sick, math.min(tonumber(ends_at), since + probe_ms * times), node)
end

-- How many of the slots a node claims are believed: `first` at the beginning (0: all), then more after a number of good
-- results (lib/growing). Only nodes that claim more have an entry.
local function believe(node, claimed, first, trust)
  claimed, first = tonumber(claimed), tonumber(first)
  local believed, good = string.match(redis.call('HGET', trust, node) or '', '^(%d+) (%d+)')
  believed, good = read_slots(believed), read_number(good, 9)
  if first == 0 or not believed and claimed <= first then
    redis.call('HDEL', trust, node)
    return claimed
  end
  believed = math.max(believed or 0, first)
  redis.call('HSET', trust, node, string.format('%d %d %d', believed, good or 0, claimed))
  return math.min(claimed, believed)
end
