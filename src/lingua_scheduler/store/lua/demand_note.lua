-- demand_note: note which pools were asked for just now, and read the whole record.
-- Replies: a list of pool, when it was last asked for, and 1 if it was served when it was asked for, then or before
-- Pools that no node serves have a record of their own: every client may ask for anything, and must not displace the others.
-- include: clock
local asked       = KEYS[1]   -- zset pool -> last asked for, of pools that were served
local missed      = KEYS[2]   -- zset pool -> last asked for, of pools that were never served
local keep_ms     = ARGV[1]
local most        = ARGV[2]
local most_missed = ARGV[3]
local now_ms      = ARGV[4]
local pools       = {unpack(ARGV, 5)}   -- each behind + if nodes serve it now, behind - if not

local now, reply = clock(now_ms), {}
for _, word in ipairs(pools) do
  local pool = string.sub(word, 2)
  if string.sub(word, 1, 1) == '+' or redis.call('ZSCORE', asked, pool) then
    redis.call('ZADD', asked, now, pool)
    redis.call('ZREM', missed, pool)
  else
    redis.call('ZADD', missed, now, pool)
  end
end
for key, kept in pairs({[asked] = most, [missed] = most_missed}) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - keep_ms)
  for _, oldest in ipairs(redis.call('ZRANGE', key, 0, -kept - 1)) do redis.call('ZREM', key, oldest) end
  local found = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for i = 1, #found, 2 do
    reply[#reply + 1] = found[i]
    reply[#reply + 1] = found[i + 1]
    reply[#reply + 1] = key == asked and 1 or 0
  end
end
return reply
