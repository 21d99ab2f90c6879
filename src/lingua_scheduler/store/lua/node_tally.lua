-- node_tally: add what a node did to its tally, in the current step of time; old steps and errors are removed.
-- Replies: counted
-- include: clock
local tally     = KEYS[1]             -- hash step -> done failed took_ms slowest_ms audio_ms audio_took_ms; errors -> lines
local step_ms   = ARGV[1]
local steps     = ARGV[2]             -- how many are kept
local most      = ARGV[3]             -- errors kept
local keep_ms   = ARGV[4]
local done      = ARGV[5]
local failed    = ARGV[6]
local took_ms   = ARGV[7]
local slowest   = ARGV[8]
local audio_ms  = ARGV[9]
local on_audio  = ARGV[10]            -- ms taken for that audio
local now_ms    = ARGV[11]
local errors    = {unpack(ARGV, 12)}  -- "at_ms reason job", the newest first

local step = math.floor(clock(now_ms) / step_ms)
local name = string.format('%.0f', step)
local known = redis.call('HGET', tally, name)
local pattern = '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$'
local d, f, t, s, a, o = string.match(known or '', pattern)
if not d then d, f, t, s, a, o = 0, 0, 0, 0, 0, 0 end
redis.call('HSET', tally, name, string.format('%.0f %.0f %.0f %.0f %.0f %.0f', d + done, f + failed, t + took_ms,
  math.max(tonumber(s), tonumber(slowest)), a + audio_ms, o + on_audio))
if not known then
  for _, field in ipairs(redis.call('HKEYS', tally)) do
    if field ~= 'errors' and (tonumber(field) or 0) <= step - steps then redis.call('HDEL', tally, field) end
  end
end
if #errors > 0 then
  for line in string.gmatch(redis.call('HGET', tally, 'errors') or '', '[^\n]+') do errors[#errors + 1] = line end
  redis.call('HSET', tally, 'errors', table.concat(errors, '\n', 1, math.min(#errors, tonumber(most))))
end
redis.call('PEXPIRE', tally, keep_ms)
return {'counted'}
