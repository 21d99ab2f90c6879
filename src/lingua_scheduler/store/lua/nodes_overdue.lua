-- nodes_overdue: nodes of a shard whose heartbeats have stopped. Entries without a registered node are skipped, within
-- `pages` of `most` entries, so that they do not hide the others.
-- Replies: a list of how many were skipped, then node ids, at most `most`
-- include: clock
local seen   = KEYS[1]   -- zset node -> alive until
local owners = KEYS[2]   -- hash node -> epoch instance connection features
local most   = ARGV[1]
local pages  = ARGV[2]
local now_ms = ARGV[3]

local reply, strange, moment = {0}, 0, clock(now_ms)
most = tonumber(most)
for page = 0, pages - 1 do
  local some = redis.call('ZRANGEBYSCORE', seen, '-inf', moment, 'LIMIT', page * most, most)
  for _, node in ipairs(some) do
    if redis.call('HEXISTS', owners, node) == 0 then
      strange = strange + 1
    elseif #reply <= most then
      reply[#reply + 1] = node
    end
  end
  if #reply > most or #some < most then break end
end
reply[1] = strange
return reply
