-- inbox_adopt: adopt a dead instance's inbox, exclusively, for a limited time. Each adoption raises the epoch (fencing
-- token).
-- Replies: adopted epoch | held by (another instance has adopted it)
-- include: clock
local adopter = KEYS[1]   -- hash: by, epoch, until
local by      = ARGV[1]
local hold_ms = ARGV[2]
local now_ms  = ARGV[3]

local now = clock(now_ms)
local held = redis.call('HMGET', adopter, 'by', 'until')
if held[1] and held[1] ~= by and (tonumber(held[2] or 0) or 0) > now then return {'held', held[1]} end
local epoch = redis.pcall('HINCRBY', adopter, 'epoch', 1)
if type(epoch) ~= 'number' then
  -- Higher than any number of adoptions.
  epoch = now
  redis.call('HSET', adopter, 'epoch', string.format('%.0f', epoch))
end
redis.call('HSET', adopter, 'by', by, 'until', now + hold_ms)
return {'adopted', epoch}
