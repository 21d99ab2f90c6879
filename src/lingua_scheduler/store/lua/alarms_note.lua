-- alarms_note: note which alarms are raised now, and read what is known of all.
-- Replies: a list of alarm and entry, "since seen acknowledged silenced_until forgotten by"
-- Instances tell of the same alarms; an alarm that none of them raised for a while is over, and what was done about it too.
-- include: clock
-- include: alarm_entry
local known   = KEYS[1]   -- hash alarm -> entry
local over_ms = ARGV[1]
local most    = ARGV[2]
local now_ms  = ARGV[3]
local raised  = {unpack(ARGV, 4)}   -- alarm and since when, in turns

local now, entries, count = clock(now_ms), {}, 0
local flat = redis.call('HGETALL', known)
for i = 1, #flat, 2 do
  local entry = alarm_entry(flat[i + 1])
  if not entry or (math.abs(now - entry.seen) > tonumber(over_ms) and entry.silenced <= now) then
    redis.call('HDEL', known, flat[i])
  else
    entries[flat[i]], count = entry, count + 1
  end
end
local is_raised, spare = {}, nil
for i = 1, #raised, 2 do is_raised[raised[i]] = true end

-- Room for one more: every client can have alarms raised that are soon over, and they must not displace the next ones.
local function has_room()
  if count < tonumber(most) then return true end
  if not spare then
    spare = {}
    for name, entry in pairs(entries) do
      local is_handled = entry.acknowledged > 0 or entry.forgotten > 0 or entry.silenced > now
      if not is_handled and not is_raised[name] then spare[#spare + 1] = name end
    end
    table.sort(spare, function(a, b) return entries[a].seen > entries[b].seen end)
  end
  local oldest = table.remove(spare)
  if not oldest then return false end
  redis.call('HDEL', known, oldest)
  entries[oldest], count = nil, count - 1
  return true
end

for i = 1, #raised, 2 do
  local entry = entries[raised[i]]
  if not entry and has_room() then
    entry = {since = tonumber(raised[i + 1]), seen = 0, acknowledged = 0, silenced = 0, forgotten = 0, by = ''}
    entries[raised[i]], count = entry, count + 1
  end
  local quiet = entry and math.abs(now - entry.seen) or 0
  if entry and quiet > over_ms / 4 then
    if quiet > tonumber(over_ms) then
      entry.since, entry.acknowledged, entry.forgotten = tonumber(raised[i + 1]), 0, 0
    end
    entry.seen = now
    redis.call('HSET', known, raised[i], alarm_text(entry))
  end
end
local reply = {}
for name, entry in pairs(entries) do
  reply[#reply + 1] = name
  reply[#reply + 1] = alarm_text(entry)
end
return reply
