-- instances_list: all known instances, dead or alive.
-- Replies: a list of instance, milliseconds since its last heartbeat, incarnation and JSON
-- include: clock
local alive  = KEYS[1]   -- zset instance -> last heartbeat
local about  = KEYS[2]   -- hash instance -> incarnation and JSON
local now_ms = ARGV[1]

local now, reply = clock(now_ms), {}
local known = redis.call('HGETALL', about)
for i = 1, #known, 2 do
  local beat = tonumber(redis.call('ZSCORE', alive, known[i]) or 0)
  reply[#reply + 1] = known[i]
  reply[#reply + 1] = now - beat
  reply[#reply + 1] = known[i + 1]
end
return reply
